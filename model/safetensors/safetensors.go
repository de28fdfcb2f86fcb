// Package safetensors reads and writes .safetensors files: eight bytes of header length, a JSON header that
// gives every tensor a dtype, a shape and a byte range, then the bytes.
//
// Reading maps the file and checks all of it that can be checked before a byte of a tensor is used: a file
// that is cut off, overlaps, leaves holes, or claims sizes that do not fit is refused with a sentence.
// Writing streams from a callback, so that a model is written without a second copy of it, and a file
// appears under its name only when it is whole and on disk.
//
// The package knows names, dtypes and shapes. It knows no model.
package safetensors

import "fmt"

// A DType is a dtype as the header spells it.
type DType string

// The dtypes that Convert reads and writes. A header may name any dtype of the format.
const (
	BF16 DType = "BF16"
	F16  DType = "F16"
	F32  DType = "F32"
)

// Bits is the size of one element, or 0 for a dtype that the format does not have.
func (d DType) Bits() int {
	switch d {
	case "F4":
		return 4
	case "F6_E2M3", "F6_E3M2":
		return 6
	case "BOOL", "U8", "I8", "F8_E4M3", "F8_E5M2", "F8_E8M0", "F8_E4M3FNUZ", "F8_E5M2FNUZ":
		return 8
	case F16, BF16, "I16", "U16":
		return 16
	case F32, "I32", "U32":
		return 32
	case "F64", "I64", "U64", "C64":
		return 64
	}
	return 0
}

// A Tensor is one tensor of an open file.
type Tensor struct {
	Name  string
	DType DType
	Shape []int
	// Data lies in the mapping and ends with Close. The format does not align it: read it through
	// encoding/binary or Convert, never through a cast pointer.
	Data []byte
}

// Elems is the number of elements.
func (t Tensor) Elems() int {
	n := 1
	for _, d := range t.Shape {
		n *= d
	}
	return n
}

// String is the tensor's name, dtype and shape, for messages.
func (t Tensor) String() string { return fmt.Sprintf("%q %s %v", t.Name, t.DType, t.Shape) }
