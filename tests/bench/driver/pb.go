// SPDX-License-Identifier: Apache-2.0

package main

// A minimal protobuf reader and writer: just what pprof, push.v1 and querier.v1 need.

import (
	"encoding/binary"
	"errors"
	"math"
)

var errProto = errors.New("malformed protobuf")

// field is one decoded field: num is the varint or fixed value, data the bytes of a length-delimited one.
type field struct {
	id   int
	wire int
	num  uint64
	data []byte
}

// eachField calls fn for every field of one message.
func eachField(b []byte, fn func(field) error) error {
	for len(b) > 0 {
		tag, n := binary.Uvarint(b)
		if n <= 0 {
			return errProto
		}
		b = b[n:]
		f := field{id: int(tag >> 3), wire: int(tag & 7)}
		switch f.wire {
		case 0:
			f.num, n = binary.Uvarint(b)
			if n <= 0 {
				return errProto
			}
			b = b[n:]
		case 1:
			if len(b) < 8 {
				return errProto
			}
			f.num, b = binary.LittleEndian.Uint64(b), b[8:]
		case 2:
			l, n := binary.Uvarint(b)
			if n <= 0 || l > uint64(len(b)-n) {
				return errProto
			}
			f.data, b = b[n:n+int(l)], b[n+int(l):]
		case 5:
			if len(b) < 4 {
				return errProto
			}
			f.num, b = uint64(binary.LittleEndian.Uint32(b)), b[4:]
		default:
			return errProto
		}
		if err := fn(f); err != nil {
			return err
		}
	}
	return nil
}

// numbers returns the values of a repeated varint field, packed or not.
func numbers(f field, into []uint64) ([]uint64, error) {
	if f.wire == 0 {
		return append(into, f.num), nil
	}
	for b := f.data; len(b) > 0; {
		v, n := binary.Uvarint(b)
		if n <= 0 {
			return into, errProto
		}
		into, b = append(into, v), b[n:]
	}
	return into, nil
}

func (f field) float() float64 { return math.Float64frombits(f.num) }

func putTag(b []byte, id, wire int) []byte { return binary.AppendUvarint(b, uint64(id<<3|wire)) }

// putNum writes a varint field; zero is the default and stays out.
func putNum(b []byte, id int, v uint64) []byte {
	if v == 0 {
		return b
	}
	return binary.AppendUvarint(putTag(b, id, 0), v)
}

func putBytes(b []byte, id int, v []byte) []byte {
	b = binary.AppendUvarint(putTag(b, id, 2), uint64(len(v)))
	return append(b, v...)
}

func putString(b []byte, id int, v string) []byte {
	b = binary.AppendUvarint(putTag(b, id, 2), uint64(len(v)))
	return append(b, v...)
}

func putDouble(b []byte, id int, v float64) []byte {
	return binary.LittleEndian.AppendUint64(putTag(b, id, 1), math.Float64bits(v))
}

// putPacked writes a packed repeated varint field.
func putPacked(b []byte, id int, vs []uint64) []byte {
	n := 0
	for _, v := range vs {
		n += uvarintLen(v)
	}
	b = binary.AppendUvarint(putTag(b, id, 2), uint64(n))
	for _, v := range vs {
		b = binary.AppendUvarint(b, v)
	}
	return b
}

func uvarintLen(v uint64) int {
	n := 1
	for v >= 0x80 {
		v >>= 7
		n++
	}
	return n
}
