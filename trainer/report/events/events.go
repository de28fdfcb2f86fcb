// Package events writes TensorBoard event files: records of TFRecord, each an Event of protobuf (tensorflow/core/util/event.proto
// and framework/summary.proto), of which a run needs three kinds: the version that begins a file, scalars, and text.
package events

import (
	"encoding/binary"
	"hash/crc32"
	"math"
)

// Frame appends a record: its length, a checksum of that, the data, and a checksum of the data; little-endian.
func Frame(b, data []byte) []byte {
	at := len(b)
	b = binary.LittleEndian.AppendUint64(b, uint64(len(data)))
	b = binary.LittleEndian.AppendUint32(b, masked(b[at:]))
	b = append(b, data...)
	return binary.LittleEndian.AppendUint32(b, masked(data))
}

// masked is CRC-32C, rotated right by 15 bits with a constant added, so that the checksum of data that holds checksums is
// not a special one.
func masked(b []byte) uint32 {
	c := crc32.Checksum(b, crc32.MakeTable(crc32.Castagnoli))
	return (c>>15 | c<<17) + 0xa282ead8
}

// A Scalar is a value with its tag.
type Scalar struct {
	Tag   string
	Value float64
}

// Version is the record that begins a file.
func Version(seconds float64) []byte {
	return Frame(nil, text(event(seconds, 0), 3, "brain.Event:2")) // file_version
}

// Start is the record that says that whatever came before, in this or an older file of the directory, from step on, is
// written again.
func Start(seconds float64, step int) []byte {
	return Frame(nil, message(event(seconds, step), 7, number(nil, 1, 1))) // session_log: status START
}

// Scalars is the record of a step's values.
func Scalars(seconds float64, step int, scalars []Scalar) []byte {
	var summary []byte
	for _, s := range scalars {
		value := text(nil, 1, s.Tag)                                                        // tag
		value = append(value, 2<<3|5)                                                       // simple_value, a float
		value = binary.LittleEndian.AppendUint32(value, math.Float32bits(float32(s.Value))) //
		summary = message(summary, 1, value)                                                // value
	}
	return Frame(nil, message(event(seconds, step), 5, summary)) // summary
}

// Text is a record that the text page shows, as Markdown.
func Text(seconds float64, step int, tag, s string) []byte {
	const dtString = 7
	tensor := number(nil, 1, dtString)                              // dtype
	tensor = message(tensor, 2, message(nil, 2, number(nil, 1, 1))) // tensor_shape: one dim of 1
	tensor = text(tensor, 8, s)                                     // string_val
	metadata := message(nil, 1, text(nil, 1, "text"))               // plugin_data: plugin_name
	value := text(nil, 1, tag)                                      //
	value = message(value, 8, tensor)                               // tensor
	value = message(value, 9, metadata)                             // metadata
	return Frame(nil, message(event(seconds, step), 5, message(nil, 1, value)))
}

// event begins an Event: wall time and step.
func event(seconds float64, step int) []byte {
	b := []byte{1<<3 | 1}
	b = binary.LittleEndian.AppendUint64(b, math.Float64bits(seconds))
	return number(b, 2, uint64(step))
}

// number appends a varint field.
func number(b []byte, field int, v uint64) []byte {
	return binary.AppendUvarint(append(b, byte(field<<3)), v)
}

// message appends a field of bytes.
func message(b []byte, field int, data []byte) []byte {
	b = binary.AppendUvarint(append(b, byte(field<<3|2)), uint64(len(data)))
	return append(b, data...)
}

func text(b []byte, field int, s string) []byte { return message(b, field, []byte(s)) }
