package tokenizer

import "time"

var testNow = time.Date(2026, 11, 29, 16, 5, 9, 0, time.UTC)
