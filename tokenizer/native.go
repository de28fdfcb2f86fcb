package tokenizer

// The linker looks for libtokenizers.a where the Makefile builds it, so that a plain "go test" finds it as well.

// #cgo LDFLAGS: -L${SRCDIR}/../build/native
import "C"
