package trainer

// OverlongPenalty is DAPO's soft punishment of long replies (arXiv:2503.14476): 0 up to limit - cache tokens, then falling
// in a line to -1 at the limit.
func OverlongPenalty(length, limit, cache int) float32 {
	switch {
	case cache <= 0 || length <= limit-cache:
		return 0
	case length >= limit:
		return -1
	}
	return float32(limit-cache-length) / float32(cache)
}
