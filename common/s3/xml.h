// SPDX-License-Identifier: Apache-2.0
//
// xml.h - the answers of an S3 store: small XML texts, read by expat.
//
// The reader calls its owner for each element with text, with the path of names that leads to it,
// such as "ListBucketResult/Contents/Key", and once at the end of each element that has elements in
// it. Text that a hostile server sends cannot cost more than its own size: no document type, so no
// entities; XML_DEPTH elements within one another; XML_TEXT bytes of text in one element.
#pragma once

#include "base/buf.h"

#define XML_DEPTH 8
#define XML_TEXT  4096

// `text` is empty for an element that has others in it. Borrowed during the call. False ends the
// reading, which fails with the *e that was set.
typedef bool xml_element(void *arg, str path, str text, err *e);

// Fails with data_loss where it is no XML, or beyond the limits.
bool xml_read(str bytes, xml_element *fn, void *arg, err *e) MUST_CHECK;
