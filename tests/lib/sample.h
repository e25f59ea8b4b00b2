// SPDX-License-Identifier: Apache-2.0
//
// sample.h - a protobuf-c message that has every kind of field and contains itself, as protoc-gen-c
// would make it from:
//
//     message Sample {
//       int32 i32 = 1;
//       uint64 u64 = 2;
//       sint64 s64 = 3;
//       double wide = 4;
//       float narrow = 5;
//       bool yes = 6;
//       Color color = 7;
//       string text_part = 8;
//       bytes blob = 9;
//       Sample child = 10;
//       repeated int64 numbers = 11;
//       repeated string texts = 12;
//       repeated Sample children = 13;
//       repeated fixed64 stamps = 14;
//       repeated bytes blobs = 15;
//       oneof pick {
//         int64 pick_number = 16;
//         string pick_text = 17;
//         Sample pick_child = 18;
//       }
//       string sample_typeID = 20;
//       repeated double doubles = 21;
//       fixed32 f32 = 22;
//     }
//     enum Color { COLOR_NONE = 0; COLOR_RED = 1; COLOR_BLUE = 5; }
#pragma once

#include "base/base.h"

#include <protobuf-c/protobuf-c.h>

enum sample_color {
    COLOR_NONE = 0,
    COLOR_RED = 1,
    COLOR_BLUE = 5
};

struct sample {
    ProtobufCMessage base;
    int32_t i32;
    uint64_t u64;
    int64_t s64;
    double wide;
    float narrow;
    protobuf_c_boolean yes;
    int color;
    char *text_part;
    ProtobufCBinaryData blob;
    struct sample *child;
    size_t n_numbers;
    int64_t *numbers;
    size_t n_texts;
    char **texts;
    size_t n_children;
    struct sample **children;
    size_t n_stamps;
    uint64_t *stamps;
    size_t n_blobs;
    ProtobufCBinaryData *blobs;
    uint32_t pick_case;
    union {
        int64_t pick_number;
        char *pick_text;
        struct sample *pick_child;
    };
    char *sample_typeid;
    size_t n_doubles;
    double *doubles;
    uint32_t f32;
};

extern const ProtobufCMessageDescriptor sample_descriptor;
