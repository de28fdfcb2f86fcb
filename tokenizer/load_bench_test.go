package tokenizer

import "testing"

func BenchmarkLoad(b *testing.B) {
	openTokenizer(b, sharedDir)
	for b.Loop() {
		t, err := Load(sharedDir)
		if err != nil {
			b.Fatal(err)
		}
		t.Close()
	}
}
