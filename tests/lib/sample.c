// SPDX-License-Identifier: Apache-2.0
#include "lib/sample.h"

// NOLINTBEGIN: the tables have the shape that protobuf-c gives them
static const ProtobufCEnumValue sample_color_values[] = {
    {"COLOR_NONE", "COLOR_NONE", 0},
    {"COLOR_RED", "COLOR_RED", 1},
    {"COLOR_BLUE", "COLOR_BLUE", 5},
};
static const ProtobufCEnumValueIndex sample_color_names[] = {{"COLOR_BLUE", 2},
                                                             {"COLOR_NONE", 0},
                                                             {"COLOR_RED", 1}};
static const ProtobufCIntRange sample_color_ranges[] = {{0, 0}, {5, 2}, {0, 3}};
static const ProtobufCEnumDescriptor sample_color_descriptor = {
    .magic = PROTOBUF_C__ENUM_DESCRIPTOR_MAGIC,
    .name = "Color",
    .n_values = 3,
    .values = sample_color_values,
    .n_value_names = 3,
    .values_by_name = sample_color_names,
    .n_value_ranges = 2,
    .value_ranges = sample_color_ranges,
};

#define SAMPLE_ONE(number, field, TYPE, desc)                             \
    {                                                                     \
#field, number, PROTOBUF_C_LABEL_NONE, PROTOBUF_C_TYPE_##TYPE, 0, \
            offsetof(struct sample, field), desc, NULL, 0, 0, NULL, NULL  \
    }
#define SAMPLE_MANY(number, field, TYPE, desc, flags)                                              \
    {                                                                                              \
#field, number, PROTOBUF_C_LABEL_REPEATED, PROTOBUF_C_TYPE_##TYPE,                         \
            offsetof(struct sample, n_##field), offsetof(struct sample, field), desc, NULL, flags, \
            0, NULL, NULL                                                                          \
    }
#define SAMPLE_PICK(number, field, TYPE, desc)                                              \
    {                                                                                       \
#field, number, PROTOBUF_C_LABEL_NONE, PROTOBUF_C_TYPE_##TYPE,                      \
            offsetof(struct sample, pick_case), offsetof(struct sample, field), desc, NULL, \
            PROTOBUF_C_FIELD_FLAG_ONEOF, 0, NULL, NULL                                      \
    }

static const ProtobufCFieldDescriptor sample_fields[] = {
    SAMPLE_ONE(1, i32, INT32, NULL),
    SAMPLE_ONE(2, u64, UINT64, NULL),
    SAMPLE_ONE(3, s64, SINT64, NULL),
    SAMPLE_ONE(4, wide, DOUBLE, NULL),
    SAMPLE_ONE(5, narrow, FLOAT, NULL),
    SAMPLE_ONE(6, yes, BOOL, NULL),
    SAMPLE_ONE(7, color, ENUM, &sample_color_descriptor),
    SAMPLE_ONE(8, text_part, STRING, NULL),
    SAMPLE_ONE(9, blob, BYTES, NULL),
    SAMPLE_ONE(10, child, MESSAGE, &sample_descriptor),
    SAMPLE_MANY(11, numbers, INT64, NULL, PROTOBUF_C_FIELD_FLAG_PACKED),
    SAMPLE_MANY(12, texts, STRING, NULL, 0),
    SAMPLE_MANY(13, children, MESSAGE, &sample_descriptor, 0),
    SAMPLE_MANY(14, stamps, FIXED64, NULL, PROTOBUF_C_FIELD_FLAG_PACKED),
    SAMPLE_MANY(15, blobs, BYTES, NULL, 0),
    SAMPLE_PICK(16, pick_number, INT64, NULL),
    SAMPLE_PICK(17, pick_text, STRING, NULL),
    SAMPLE_PICK(18, pick_child, MESSAGE, &sample_descriptor),
    {"sample_typeID", 20, PROTOBUF_C_LABEL_NONE, PROTOBUF_C_TYPE_STRING, 0,
     offsetof(struct sample, sample_typeid), NULL, NULL, 0, 0, NULL, NULL},
    SAMPLE_MANY(21, doubles, DOUBLE, NULL, PROTOBUF_C_FIELD_FLAG_PACKED),
    SAMPLE_ONE(22, f32, FIXED32, NULL),
};
static const ProtobufCIntRange sample_ranges[] = {{1, 0}, {20, 18}, {0, 21}};

static void sample_init(ProtobufCMessage *m)
{
    *(struct sample *)(void *)m = (struct sample){
        .base = PROTOBUF_C_MESSAGE_INIT(&sample_descriptor),
        .text_part = (char *)(uintptr_t)protobuf_c_empty_string,
        .sample_typeid = (char *)(uintptr_t)protobuf_c_empty_string,
    };
}

const ProtobufCMessageDescriptor sample_descriptor = {
    .magic = PROTOBUF_C__MESSAGE_DESCRIPTOR_MAGIC,
    .name = "Sample",
    .short_name = "Sample",
    .c_name = "sample",
    .package_name = "",
    .sizeof_message = sizeof(struct sample),
    .n_fields = COUNT(sample_fields),
    .fields = sample_fields,
    .n_field_ranges = 2,
    .field_ranges = sample_ranges,
    .message_init = sample_init,
};
// NOLINTEND
