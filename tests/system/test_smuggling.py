"""Requests that two readers could take for different ones: each has its exact answer, what was hidden in it is never answered, a connection
whose framing is in doubt is closed, and a neighbour's connection goes on.

Every HTTP/1.1 case is followed by a further request on the same connection: it is answered only where nothing was in doubt."""
import pytest
from client import table
from flametree import Flametree, await_
from wire import (COMPRESSION_ERROR, CONTINUATION, DATA, END_HEADERS, END_STREAM, FLOW_CONTROL_ERROR, FRAME_SIZE_ERROR, H2, HEADERS, PADDED, PING,
                  PREFACE, PRIORITY, PROTOCOL_ERROR, PUSH_PROMISE, RST_STREAM, SETTINGS, STREAM_CLOSED, WITH_PRIORITY, Wire, fields, frame, head, headers, rst,
                  settings, window_update)

ASK = "/querier.v1.QuerierService/ProfileTypes"  # a body of {} is answered 200
HIDDEN = b"GET /hidden HTTP/1.1\r\nHost: a\r\n\r\n"
NEXT = b"GET /ready HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"


@pytest.fixture(scope="module")
def f():
    with Flametree("--server.hosts", "a") as server:
        yield server


@pytest.fixture(scope="module")
def neighbour(f):
    with Wire(f) as wire:
        yield wire


def ask(wire):
    wire.send(b"GET /ready HTTP/1.1\r\nHost: a\r\n\r\n")
    answer = wire.answer()
    assert (answer.status, answer.body) == (200, b"ready"), answer


def request(line, *lines, host=b"Host: a", body=b""):
    return b"\r\n".join([line, *([host] if host else []), *lines]) + b"\r\n\r\n" + body


def get(*lines, target=b"/ready", **kw):
    return request(b"GET " + target + b" HTTP/1.1", *lines, **kw)


def post(*lines, body, version=b"1.1", target=ASK.encode()):
    return request(b"POST " + target + b" HTTP/" + version, b"Content-Type: application/json", *lines, body=body)


def coded(line):
    """A body that ends at once for a reader that takes it for chunked, before a hidden request."""
    return post(*line.split(b"\r\n"), body=b"0\r\n\r\n" + HIDDEN)


def sized(value, body=b"{}", name=b"Content-Length: "):
    return post(name + value, body=body + HIDDEN)


def chunked(body):
    return post(b"Transfer-Encoding: chunked", body=body + HIDDEN)


CHUNKED = b"Transfer-Encoding: chunked"
GOOD, REFUSED, UNKNOWN, CODING = [200], [400], [501], [501]

# name, bytes, statuses of the case itself, is what follows answered (hidden request 404, next request 200)?
LENGTHS = [
    ("cl-te", post(b"Content-Length: 6", CHUNKED, body=b"0\r\n\r\nG"), REFUSED, 0),
    ("te-cl", post(CHUNKED, b"Content-Length: 4", body=b"5c\r\nGPOST / HTTP/1.1\r\n\r\n0\r\n\r\n"), REFUSED, 0),
    ("cl0-te", post(b"Content-Length: 0", CHUNKED, body=b"0\r\n\r\n" + HIDDEN), REFUSED, 0),
    ("te-cl0", post(CHUNKED, b"Content-Length: 0", body=b"0\r\n\r\n" + HIDDEN), REFUSED, 0),
    ("te-in-1.0", post(CHUNKED, body=b"0\r\n\r\n" + HIDDEN, version=b"1.0"), REFUSED, 0),
    ("te-in-1.0-kept", post(CHUNKED, b"Connection: keep-alive", body=b"0\r\n\r\n" + HIDDEN, version=b"1.0"), REFUSED, 0),
    ("same-length-twice", post(b"Content-Length: 2", b"Content-Length: 2", body=b"{}" + HIDDEN), REFUSED, 0),
    ("two-lengths", post(b"Content-Length: 2", b"Content-Length: 0", body=b"{}" + HIDDEN), REFUSED, 0),
    ("two-lengths-zero-first", post(b"Content-Length: 0", b"Content-Length: 2", body=b"{}" + HIDDEN), REFUSED, 0),
    ("length-folded", post(b"Content-Length:\r\n 2", body=b"{}" + HIDDEN), REFUSED, 0),
    ("length-space-colon", sized(b"2", name=b"Content-Length : "), REFUSED, 0),
    ("length-tab-colon", sized(b"2", name=b"Content-Length\t: "), REFUSED, 0),
    ("length-nul-name", sized(b"2", name=b"Content-Length\0: "), REFUSED, 0),
    ("length-plus", sized(b"+2"), REFUSED, 0), ("length-minus", sized(b"-2"), REFUSED, 0), ("length-minus-0", sized(b"-0"), REFUSED, 0),
    ("length-hex", sized(b"0x2"), REFUSED, 0), ("length-list", sized(b"2,2"), REFUSED, 0), ("length-list-space", sized(b"2, 2"), REFUSED, 0),
    ("length-two-words", sized(b"2 2"), REFUSED, 0), ("length-parameter", sized(b"2;a"), REFUSED, 0), ("length-empty", sized(b""), REFUSED, 0),
    ("length-word", sized(b"two"), REFUSED, 0), ("length-fraction", sized(b"2.0"), REFUSED, 0), ("length-exponent", sized(b"2e0"), REFUSED, 0),
    ("length-underscore", sized(b"0_2"), REFUSED, 0), ("length-quoted", sized(b'"2"'), REFUSED, 0), ("length-over-64-bits", sized(b"18446744073709551618"), REFUSED, 0),
    ("length-over-63-bits", sized(b"9223372036854775810"), REFUSED, 0), ("length-40-digits", sized(b"9" * 40), REFUSED, 0),
    ("length-nul-before", sized(b"\0002"), REFUSED, 0), ("length-nul-after", sized(b"2\0"), REFUSED, 0), ("length-vertical-tab", sized(b"\x0b2"), REFUSED, 0),
    ("length-form-feed", sized(b"2\x0c"), REFUSED, 0), ("length-wide-digit", sized("２".encode()), REFUSED, 0), ("length-cr", sized(b"2\r"), REFUSED, 0),
    ("length-0-padded", sized(b"00000002"), GOOD, 1), ("length-spaces-around", sized(b"  2  "), GOOD, 1), ("length-right", sized(b"2"), GOOD, 1),
    ("length-in-other-case", sized(b"2", name=b"cONTENT-lENGTH:"), GOOD, 1),
    ("length-too-short", post(b"Content-Length: 2", body=b"{}" + b"XX" + HIDDEN), GOOD + UNKNOWN, 0),
    ("length-named-by-connection", post(b"Connection: content-length", b"Content-Length: 2", body=b"{}" + HIDDEN), GOOD, 1),
]

CODINGS = [
    ("xchunked", coded(b"Transfer-Encoding: xchunked"), CODING, 0), ("chunkedx", coded(b"Transfer-Encoding: chunkedx"), CODING, 0),
    ("space-colon", coded(b"Transfer-Encoding : chunked"), REFUSED, 0), ("tab-colon", coded(b"Transfer-Encoding\t: chunked"), REFUSED, 0),
    ("leading-space", coded(b" Transfer-Encoding: chunked"), REFUSED, 0), ("after-bare-lf", coded(b"X: X\nTransfer-Encoding: chunked"), REFUSED, 0),
    ("after-bare-cr", coded(b"X: X\rTransfer-Encoding: chunked"), REFUSED, 0), ("twice", coded(CHUNKED + b"\r\n" + CHUNKED), REFUSED, 0),
    ("then-other", coded(CHUNKED + b"\r\nTransfer-Encoding: x"), CODING, 0), ("then-identity", coded(CHUNKED + b"\r\nTransfer-encoding: identity"), CODING, 0),
    ("other-then", coded(b"Transfer-Encoding: x\r\n" + CHUNKED), CODING, 0), ("vertical-tab", coded(b"Transfer-Encoding:\x0bchunked"), REFUSED, 0),
    ("form-feed", coded(b"Transfer-Encoding: chunked\x0c"), REFUSED, 0), ("nul-value", coded(b"Transfer-Encoding: chunked\0"), REFUSED, 0),
    ("nul-name", coded(b"Transfer-Encoding\0: chunked"), REFUSED, 0), ("nul-first", coded(b"\0Transfer-Encoding: chunked"), REFUSED, 0),
    ("list-identity", coded(b"Transfer-Encoding: chunked, identity"), CODING, 0), ("identity-list", coded(b"Transfer-Encoding: identity, chunked"), CODING, 0),
    ("identity", coded(b"Transfer-Encoding: identity"), CODING, 0), ("gzip", coded(b"Transfer-Encoding: gzip, chunked"), CODING, 0),
    ("chunked-twice-in-list", coded(b"Transfer-Encoding: chunked, chunked"), CODING, 0), ("empty-in-list", coded(b"Transfer-Encoding: ,chunked"), CODING, 0),
    ("empty-at-end", coded(b"Transfer-Encoding: chunked,"), CODING, 0), ("parameter", coded(b"Transfer-Encoding: chunked;q=1"), CODING, 0),
    ("quoted", coded(b'Transfer-Encoding: "chunked"'), CODING, 0), ("single-quoted", coded(b"Transfer-Encoding: 'chunked'"), CODING, 0),
    ("long-s", coded("Transfer-Encoding: chunkeſd".encode()), CODING, 0), ("no-break-space", coded(b"Transfer-Encoding:\xa0chunked"), CODING, 0),
    ("no-break-space-name", coded(b"Transfer-Encoding\xa0: chunked"), REFUSED, 0), ("empty", coded(b"Transfer-Encoding:"), CODING, 0),
    ("folded", coded(b"Transfer-Encoding:\r\n chunked"), REFUSED, 0), ("folded-tail", coded(b"Transfer-Encoding: chunked\r\n , x"), REFUSED, 0),
    ("cr-at-end", coded(b"Transfer-Encoding: chunked\r"), REFUSED, 0), ("tab-before", post(b"Transfer-Encoding:\tchunked", body=b"2\r\n{}\r\n0\r\n\r\n" + HIDDEN), GOOD, 1),
    ("other-case", post(b"tRANSFER-eNCODING: CHUNKED", body=b"2\r\n{}\r\n0\r\n\r\n" + HIDDEN), GOOD, 1),
]

LAST = b"\r\n{}\r\n0\r\n\r\n"
CHUNKS = [
    ("right", chunked(b"2" + LAST), GOOD, 1), ("zeros-before", chunked(b"00002" + LAST), GOOD, 1), ("in-two", chunked(b"1\r\n{\r\n1\r\n}\r\n0\r\n\r\n"), GOOD, 1),
    ("extension", chunked(b"2;a" + LAST), GOOD, 1), ("extension-value", chunked(b"2 ; a=b;c" + LAST), GOOD, 1), ("extension-quoted", chunked(b'2;a="; \\" b"' + LAST), GOOD, 1),
    ("trailer", chunked(b"2\r\n{}\r\n0\r\nx: y\r\n\r\n"), GOOD, 1),
    ("plus", chunked(b"+2" + LAST), REFUSED, 0), ("minus", chunked(b"-2" + LAST), REFUSED, 0), ("0x", chunked(b"0x2" + LAST), REFUSED, 0),
    ("leading-space", chunked(b" 2" + LAST), REFUSED, 0), ("trailing-space", chunked(b"2 " + LAST), REFUSED, 0), ("trailing-tab", chunked(b"2\t" + LAST), REFUSED, 0),
    ("two-sizes", chunked(b"2 2" + LAST), REFUSED, 0), ("comma", chunked(b"2,2" + LAST), REFUSED, 0), ("underscore", chunked(b"2_" + LAST), REFUSED, 0),
    ("no-size", chunked(b"\r\n{}\r\n0\r\n\r\n"), REFUSED, 0), ("only-extension", chunked(b";a" + LAST), REFUSED, 0), ("not-hex", chunked(b"g" + LAST), REFUSED, 0),
    ("over-64-bits", chunked(b"10000000000000002" + LAST), REFUSED, 0), ("64-bits", chunked(b"ffffffffffffffff" + LAST), REFUSED, 0),
    ("16-digits", chunked(b"0000000000000002" + LAST), REFUSED, 0), ("over-the-limit", chunked(b"fffffffffffffff" + LAST), [429], 0),
    ("nul", chunked(b"2\0" + LAST), REFUSED, 0), ("vertical-tab", chunked(b"2\x0b" + LAST), REFUSED, 0), ("lf-after-size", chunked(b"2\n{}\r\n0\r\n\r\n"), REFUSED, 0),
    ("cr-after-size", chunked(b"2\r{}\r\n0\r\n\r\n"), REFUSED, 0), ("lf-after-data", chunked(b"2\r\n{}\n0\r\n\r\n"), REFUSED, 0),
    ("nothing-after-data", chunked(b"2\r\n{}0\r\n\r\n"), REFUSED, 0), ("more-than-said", chunked(b"2\r\n{}X\r\n0\r\n\r\n"), REFUSED, 0),
    ("less-than-said", chunked(b"3\r\n{}\r\n0\r\n\r\n"), REFUSED, 0), ("lf-at-end", chunked(b"2\r\n{}\r\n0\n\n"), REFUSED, 0), ("lf-last", chunked(b"2\r\n{}\r\n0\r\n\n"), REFUSED, 0),
    ("empty-line-between", chunked(b"2\r\n{}\r\n\r\n0\r\n\r\n"), REFUSED, 0), ("no-crlf-at-end", chunked(b"2\r\n{}\r\n0\r\n"), REFUSED, 0),
    ("extension-lf", chunked(b"2;a\n{}\r\n0\r\n\r\n"), REFUSED, 0), ("extension-cr", chunked(b"2;a\rb" + LAST), REFUSED, 0), ("extension-nul", chunked(b"2;a\0" + LAST), REFUSED, 0),
    ("extension-open-quotes", chunked(b'2;a="\r\n{}\r\n0\r\n\r\n'), REFUSED, 0), ("extension-no-token", chunked(b"2;a(b" + LAST), REFUSED, 0),
    ("extension-8-bit", chunked(b"2;\xe2\x82\xac" + LAST), REFUSED, 0), ("extensions-endless", chunked(b"2;" + b"a" * 10000 + LAST), REFUSED, 0),
    ("trailer-length", chunked(b"2\r\n{}\r\n0\r\nContent-Length: 5\r\n\r\n"), REFUSED, 0), ("trailer-coding", chunked(b"2\r\n{}\r\n0\r\n" + CHUNKED + b"\r\n\r\n"), REFUSED, 0),
    ("trailer-host", chunked(b"2\r\n{}\r\n0\r\nhost: b\r\n\r\n"), REFUSED, 0), ("trailer-connection", chunked(b"2\r\n{}\r\n0\r\nConnection: close\r\n\r\n"), REFUSED, 0),
    ("trailer-no-colon", chunked(b"2\r\n{}\r\n0\r\nGET / HTTP/1.1\r\n\r\n"), REFUSED, 0), ("trailer-no-name", chunked(b"2\r\n{}\r\n0\r\n: x\r\n\r\n"), REFUSED, 0),
    ("trailer-space-colon", chunked(b"2\r\n{}\r\n0\r\na : b\r\n\r\n"), REFUSED, 0), ("trailer-folded", chunked(b"2\r\n{}\r\n0\r\na: b\r\n c\r\n\r\n"), REFUSED, 0),
    ("trailer-leading-space", chunked(b"2\r\n{}\r\n0\r\n a: b\r\n\r\n"), REFUSED, 0), ("trailer-nul", chunked(b"2\r\n{}\r\n0\r\na: \0\r\n\r\n"), REFUSED, 0),
    ("trailer-lf", chunked(b"2\r\n{}\r\n0\r\na: b\n\r\n"), REFUSED, 0), ("trailers-endless", chunked(b"2\r\n{}\r\n0\r\n" + b"a: b\r\n" * 3000 + b"\r\n"), REFUSED, 0),
]

LINES = [
    ("two-spaces-before-target", request(b"GET  /ready HTTP/1.1"), REFUSED, 0), ("two-spaces-after-target", request(b"GET /ready  HTTP/1.1"), REFUSED, 0),
    ("tab-before-target", request(b"GET\t/ready HTTP/1.1"), REFUSED, 0), ("tab-after-target", request(b"GET /ready\tHTTP/1.1"), REFUSED, 0),
    ("space-at-end", request(b"GET /ready HTTP/1.1 "), REFUSED, 0), ("tab-at-end", request(b"GET /ready HTTP/1.1\t"), REFUSED, 0),
    ("leading-space", request(b" GET /ready HTTP/1.1"), REFUSED, 0), ("leading-tab", request(b"\tGET /ready HTTP/1.1"), REFUSED, 0),
    ("line-of-spaces-first", b"  \r\n" + get(), REFUSED, 0), ("space-in-target", request(b"GET /rea dy HTTP/1.1"), REFUSED, 0),
    ("request-in-target", request(b"GET /ready HTTP/1.1 /x HTTP/1.1"), REFUSED, 0), ("nul-in-target", get(target=b"/rea\0dy"), REFUSED, 0),
    ("control-in-target", get(target=b"/ready\x01"), REFUSED, 0), ("del-in-target", get(target=b"/ready\x7f"), REFUSED, 0),
    ("cr-in-target", get(target=b"/ready\rx"), REFUSED, 0), ("lf-in-target", get(target=b"/ready\nx"), REFUSED, 0), ("fragment", get(target=b"/ready#x"), REFUSED, 0),
    ("no-target", request(b"GET HTTP/1.1"), REFUSED, 0), ("no-version", b"GET /ready\r\n\r\n", REFUSED, 0), ("version-0.9", request(b"GET /ready HTTP/0.9"), [505], 0),
    ("version-2.0", request(b"GET /ready HTTP/2.0"), [505], 0), ("version-1", request(b"GET /ready HTTP/1"), REFUSED, 0),
    ("version-1.10", request(b"GET /ready HTTP/1.10"), REFUSED, 0), ("version-01.1", request(b"GET /ready HTTP/01.1"), REFUSED, 0),
    ("version-1,1", request(b"GET /ready HTTP/1,1"), REFUSED, 0), ("version-plus", request(b"GET /ready HTTP/+1.1"), REFUSED, 0),
    ("version-lower-case", request(b"GET /ready http/1.1"), REFUSED, 0), ("other-protocol", request(b"GET /ready ICE/1.0"), REFUSED, 0),
    ("rtsp", request(b"GET /ready RTSP/1.0"), REFUSED, 0), ("method-lower-case", request(b"get /ready HTTP/1.1"), UNKNOWN, 0),
    ("method-unknown", request(b"BREW /ready HTTP/1.1"), UNKNOWN, 0), ("method-no-token", request(b"G(T /ready HTTP/1.1"), REFUSED, 0),
    ("method-nul", request(b"GE\0T /ready HTTP/1.1"), REFUSED, 0), ("connect", request(b"CONNECT a:80 HTTP/1.1"), [405], 0),
    ("lf-only", b"GET /ready HTTP/1.1\nHost: a\n\n", REFUSED, 0), ("cr-only", b"GET /ready HTTP/1.1\rHost: a\r\r", REFUSED, 0),
    ("lf-in-headers", b"GET /ready HTTP/1.1\r\nHost: a\nX: y\r\n\r\n", REFUSED, 0), ("lf-at-end", b"GET /ready HTTP/1.1\r\nHost: a\r\n\n", REFUSED, 0),
    ("crcrlf", b"GET /ready HTTP/1.1\r\r\nHost: a\r\n\r\n", REFUSED, 0), ("lf-first", b"\n" + get(), REFUSED, 0), ("cr-first", b"\r" + get(), REFUSED, 0),
    ("empty-lines-first", b"\r\n\r\n" + get(), GOOD, 2), ("nul-first", b"\0" + get(), REFUSED, 0), ("preface-later", get() + PREFACE, GOOD + UNKNOWN, 0),
    ("preface-with-lf", b"PRI * HTTP/2.0\n\nSM\n\n", REFUSED, 0), ("tls-hello", b"\x16\x03\x01\x02\x00\x01\x00\r\n\r\n", REFUSED, 0),
]

NAMES = [
    ("space-colon", get(b"X : a"), REFUSED, 0), ("tab-colon", get(b"X\t: a"), REFUSED, 0), ("space-in-name", get(b"X Y: a"), REFUSED, 0),
    ("nul-in-name", get(b"X\0Y: a"), REFUSED, 0), ("control-in-name", get(b"X\x01: a"), REFUSED, 0), ("8-bit-in-name", get(b"X\xff: a"), REFUSED, 0),
    ("parenthesis-in-name", get(b"X(: a"), REFUSED, 0), ("no-name", get(b": a"), REFUSED, 0), ("no-colon", get(b"X"), REFUSED, 0),
    ("request-line-as-header", get(b"GET /hidden HTTP/1.1"), REFUSED, 0), ("nul-in-value", get(b"X: a\0b"), REFUSED, 0), ("control-in-value", get(b"X: a\x01b"), REFUSED, 0),
    ("del-in-value", get(b"X: a\x7fb"), REFUSED, 0), ("vertical-tab-in-value", get(b"X: a\x0bb"), REFUSED, 0), ("cr-in-value", get(b"X: a\rb"), REFUSED, 0),
    ("lf-in-value", get(b"X: a\nb"), REFUSED, 0), ("folded", get(b"X: a\r\n b"), REFUSED, 0), ("folded-tab", get(b"X: a\r\n\tb"), REFUSED, 0),
    ("folded-first", b"GET /ready HTTP/1.1\r\n Host: a\r\n\r\n", REFUSED, 0), ("folded-empty", get(b"X: a\r\n "), REFUSED, 0),
    ("101-headers", get(*[b"X%d: a" % i for i in range(100)]), [431], 0), ("huge-header", get(b"X: " + b"a" * 70000), [431], 0), ("8-bit-in-value", get(b"X: \xff"), GOOD, 2),
]

HOSTS = [
    ("missing", get(host=None), REFUSED, 0), ("missing-in-1.0", request(b"GET /ready HTTP/1.0", b"Connection: keep-alive", host=None), GOOD, 2),
    ("twice", get(b"Host: b"), REFUSED, 0), ("same-twice", get(b"Host: a"), REFUSED, 0), ("list", get(host=b"Host: a,b"), REFUSED, 0),
    ("space", get(host=b"Host: a b"), REFUSED, 0), ("path", get(host=b"Host: a/b"), REFUSED, 0), ("query", get(host=b"Host: a?b"), REFUSED, 0),
    ("fragment", get(host=b"Host: a#b"), REFUSED, 0), ("user", get(host=b"Host: u@a"), REFUSED, 0), ("port-no-number", get(host=b"Host: a:8x"), REFUSED, 0),
    ("two-ports", get(host=b"Host: a:1:2"), REFUSED, 0), ("open-bracket", get(host=b"Host: [::1"), REFUSED, 0), ("8-bit", get(host=b"Host: \xff"), REFUSED, 0),
    ("url", get(host=b"Host: http://a"), REFUSED, 0), ("v6", get(host=b"Host: [::1]:4040"), GOOD, 2), ("empty", get(host=b"Host:"), GOOD, 2),
    ("target-same", get(target=b"http://a/ready"), GOOD, 2), ("target-default-port", get(target=b"http://A:80/ready"), GOOD, 2),
    ("target-other", get(target=b"http://b/ready"), REFUSED, 0), ("target-other-port", get(target=b"http://a:81/ready"), REFUSED, 0),
    ("target-user", get(target=b"http://u@a/ready"), REFUSED, 0), ("target-no-host", get(target=b"http:///ready"), REFUSED, 0),
    ("target-bad-port", get(target=b"http://a:x/ready"), REFUSED, 0), ("target-other-scheme", get(target=b"ftp://a/ready"), REFUSED, 0),
    ("target-authority", get(target=b"a:80"), REFUSED, 0), ("target-relative", get(target=b"ready"), REFUSED, 0), ("target-star", get(target=b"*"), [404], 2),
]

MORE = [
    ("upgrade", get(b"Connection: Upgrade, HTTP2-Settings", b"Upgrade: h2c", b"HTTP2-Settings: AAMAAABkAARAAAAAAAIAAAAA"), GOOD, 2),
    ("upgrade-with-body", post(b"Connection: Upgrade, HTTP2-Settings", b"Upgrade: h2c", b"HTTP2-Settings: AAMAAABkAARAAAAA", b"Content-Length: 2", body=b"{}" + HIDDEN), GOOD, 1),
    ("upgrade-then-preface", get(b"Connection: Upgrade", b"Upgrade: h2c") + PREFACE + settings(), GOOD + UNKNOWN, 0),
    ("websocket-then-request", get(b"Connection: Upgrade", b"Upgrade: websocket", b"Sec-WebSocket-Version: 1") + HIDDEN, GOOD, 1),
    ("expectation-unknown", post(b"Expect: tea", b"Content-Length: 2", body=b"{}" + HIDDEN), [417], 0),
    ("expectation-list", post(b"Expect: 100-continue, tea", b"Content-Length: 2", body=b"{}" + HIDDEN), [417], 0),
    ("expectation-met", post(b"Expect: 100-continue", b"Content-Length: 2", body=b"{}" + HIDDEN), [100, 200], 1),
    ("expectation-not-met", post(b"Expect: 100-continue", b"Content-Length: %d" % len(HIDDEN), body=HIDDEN, target=b"/nowhere"), [404], 0),
    ("expectation-obfuscated", post(b"Expect:\x00100-continue", b"Content-Length: 2", body=b"{}" + HIDDEN), REFUSED, 0),
    ("body-of-get", get(b"Content-Length: %d" % len(HIDDEN), body=HIDDEN), GOOD, 2), ("chunked-body-of-get", get(CHUNKED, body=b"%x\r\n" % len(HIDDEN) + HIDDEN + b"\r\n0\r\n\r\n"), GOOD, 2),
    ("body-that-nobody-reads", post(b"Content-Length: %d" % len(HIDDEN), body=HIDDEN, target=b"/nowhere"), [404], 2),
    ("chunked-body-that-nobody-reads", post(CHUNKED, body=b"%x\r\n" % len(HIDDEN) + HIDDEN + b"\r\n0\r\n\r\n", target=b"/nowhere"), [404], 0),
    ("large-body-that-nobody-reads", post(b"Content-Length: 1000000", body=HIDDEN * 3, target=b"/nowhere"), [404], 0),
    ("close-then-request", get(b"Connection: close") + HIDDEN, GOOD, 0), ("1.0-then-request", request(b"GET /ready HTTP/1.0") + HIDDEN, GOOD, 0),
    ("length-over-the-limit", post(b"Content-Length: 999999999999", body=HIDDEN), [429], 0),
]


def flat(*tables):
    return [(group + "-" + name, *row) for group, rows in tables for name, *row in rows]


H1 = flat(("length", LENGTHS), ("coding", CODINGS), ("chunk", CHUNKS), ("line", LINES), ("header", NAMES), ("host", HOSTS), ("message", MORE))


@table("data, statuses, follows", H1)
def test_http1(f, neighbour, data, statuses, follows):
    """follows: 0: nothing more is answered; 1: the hidden request is a request of its own, and the next one; 2: the next one."""
    with Wire(f) as wire:
        wire.send(data + NEXT)
        answers = wire.answers()
    expected = statuses + {0: [], 1: [404, 200], 2: [200]}[follows]
    assert [a.status for a in answers] == expected, answers
    assert all(a.headers.get("connection") != "close" for a in answers[:-1]), answers
    assert wire.end == "fin" and answers[-1].headers.get("connection") == "close", answers
    ask(neighbour)


def test_http1_cut_anywhere_reads_the_same(f, neighbour):
    """What comes in two pieces is read as what comes in one."""
    for data, statuses in ((sized(b"2"), [200, 404, 200]), (chunked(b'1;a="b"\r\n{\r\n1\r\n}\r\n0\r\nx: y\r\n\r\n'), [200, 404, 200]), (chunked(b"2 2" + LAST), [400])):
        for cut in range(1, len(data), 7):
            with Wire(f) as wire:
                wire.send(data[:cut])
                ask(neighbour)
                wire.send(data[cut:] + NEXT)
                assert [a.status for a in wire.answers()] == statuses, cut


# ---- HTTP/2

def body(*data, more=(), flags=END_STREAM):
    out = headers(1, head("POST", ASK, [("content-type", "application/json"), *more]), END_HEADERS)
    return out + b"".join(frame(DATA, flags if i == len(data) - 1 else 0, 1, d) for i, d in enumerate(data))


def trailers(pairs, flags=END_HEADERS | END_STREAM):
    return body(b"{}", flags=0) + frame(HEADERS, flags, 1, fields(pairs))


def whole(*more, without=None, **kw):
    return headers(1, [p for p in head(**kw) if p[0] != without] + list(more))


class Reset(int):
    """The stream is reset with this code, and the connection goes on."""


class Away(int):
    """GOAWAY with this code, and the connection is closed."""


MALFORMED = Reset(PROTOCOL_ERROR)
# name, frames of stream 1, its status or how it ends
FIELDS = [
    ("right", whole(), 200), ("te-trailers", whole(("te", "trailers")), 200), ("8-bit-value", whole(("x", b"\xff")), 200),
    ("connection", whole(("connection", "close")), MALFORMED), ("keep-alive", whole(("keep-alive", "timeout=5")), MALFORMED),
    ("proxy-connection", whole(("proxy-connection", "keep-alive")), MALFORMED), ("upgrade", whole(("upgrade", "h2c")), MALFORMED),
    ("transfer-encoding", whole(("transfer-encoding", "chunked")), MALFORMED), ("transfer-encoding-body", body(b"0\r\n\r\n", more=[("transfer-encoding", "chunked")]), MALFORMED),
    ("te-other", whole(("te", "gzip")), MALFORMED), ("upper-case", whole(("X-A", "b")), MALFORMED), ("upper-case-pseudo", whole((":Path", "/b")), MALFORMED),
    ("space-in-name", whole(("x a", "b")), MALFORMED), ("colon-in-name", whole(("x:a", "b")), MALFORMED), ("nul-in-name", whole(("x\0", "b")), MALFORMED),
    ("crlf-in-name", whole(("x: y\r\nhost", "b")), MALFORMED), ("8-bit-in-name", whole((b"x\xff", "b")), MALFORMED), ("empty-name", whole(("", "b")), MALFORMED),
    ("cr-in-value", whole(("x", "a\rb")), MALFORMED), ("lf-in-value", whole(("x", "a\nb")), MALFORMED), ("nul-in-value", whole(("x", "a\0b")), MALFORMED),
    ("request-in-value", whole(("x", "a\r\n\r\nGET /hidden HTTP/1.1\r\nHost: a")), MALFORMED), ("leading-space", whole(("x", " a")), MALFORMED),
    ("trailing-tab", whole(("x", "a\t")), MALFORMED), ("control-in-value", whole(("x", "\x01")), MALFORMED),
    ("pseudo-after-regular", headers(1, head()[:3] + [("x", "y")] + head()[3:]), MALFORMED), ("two-paths", whole((":path", "/b")), MALFORMED),
    ("two-methods", whole((":method", "POST")), MALFORMED), ("two-authorities", whole((":authority", "a")), MALFORMED), ("two-schemes", whole((":scheme", "http")), MALFORMED),
    ("unknown-pseudo", whole((":foo", "b")), MALFORMED), ("status-pseudo", whole((":status", "200")), MALFORMED), ("protocol-pseudo", whole((":protocol", "websocket")), MALFORMED),
    ("no-method", whole(without=":method"), MALFORMED), ("no-path", whole(without=":path"), MALFORMED), ("no-scheme", whole(without=":scheme"), MALFORMED),
    ("no-authority", whole(without=":authority"), MALFORMED), ("host-for-authority", whole(("host", "a"), without=":authority"), 200),
    ("empty-path", whole(path=""), MALFORMED), ("relative-path", whole(path="ready"), MALFORMED), ("absolute-path", whole(path="http://a/ready"), MALFORMED),
    ("star-path", whole(path="*"), MALFORMED), ("query-path", whole(path="?x"), MALFORMED), ("request-in-path", whole(path="/ready HTTP/1.1\r\nHost: b\r\n\r\n"), MALFORMED),
    ("space-in-path", whole(path="/rea dy"), MALFORMED), ("nul-in-path", whole(path="/ready\0"), MALFORMED), ("fragment", whole(path="/ready#x"), 400),
    ("fragment-in-query", whole(path="/ready?a#x"), 400), ("relative-path-odd-scheme", whole(path="ready", scheme="foo"), 400), ("empty-path-odd-scheme", whole(path="", scheme="foo"), MALFORMED),
    ("request-in-scheme", whole(scheme="http://b/hidden?"), MALFORMED), ("empty-scheme", whole(scheme=""), MALFORMED), ("empty-method", whole(method=""), MALFORMED),
    ("request-in-method", whole(method="GET /hidden HTTP/1.1"), MALFORMED), ("crlf-in-method", whole(method="GET\r\n"), MALFORMED), ("unknown-method", whole(method="BREW"), 405),
    ("connect", headers(1, [(":method", "CONNECT"), (":authority", "a:80")]), 405), ("connect-with-path", whole(method="CONNECT"), MALFORMED),
    ("user-in-authority", whole(authority="u@a"), 400), ("path-in-authority", whole(authority="a/b"), MALFORMED), ("empty-authority", whole(authority=""), MALFORMED),
    ("space-in-authority", whole(authority="a b"), MALFORMED), ("crlf-in-authority", whole(authority="a\r\nx: y"), MALFORMED), ("list-in-authority", whole(authority="a,b"), 400),
    ("bad-port-in-authority", whole(authority="a:8x"), 400), ("other-host", whole(("host", "b")), 400), ("same-host", whole(("host", "LOCALHOST:80")), 200),
    ("two-hosts", whole(("host", "a"), ("host", "a")), MALFORMED), ("bad-host", whole(("host", "a/b"), without=":authority"), MALFORMED),
    ("expectation-unknown", body(b"{}", more=[("expect", "tea")]), 417),
]

BODIES = [
    ("length-right", body(b"{}", more=[("content-length", "2")]), 200), ("length-right-in-pieces", body(b"{", b"", b"}", more=[("content-length", "2")]), 200),
    ("length-short", body(b"{}", more=[("content-length", "1")]), MALFORMED), ("length-long", body(b"{}", more=[("content-length", "3")]), MALFORMED),
    ("length-0", body(b"{}", more=[("content-length", "0")]), MALFORMED), ("length-without-data", whole(("content-length", "2"), method="POST", path=ASK), MALFORMED),
    ("length-twice", body(b"{}", more=[("content-length", "2")] * 2), MALFORMED), ("two-lengths", body(b"{}", more=[("content-length", "2"), ("content-length", "0")]), MALFORMED),
    ("length-plus", body(b"{}", more=[("content-length", "+2")]), MALFORMED), ("length-space", body(b"{}", more=[("content-length", " 2")]), MALFORMED),
    ("length-hex", body(b"{}", more=[("content-length", "0x2")]), MALFORMED), ("length-list", body(b"{}", more=[("content-length", "2,2")]), MALFORMED),
    ("length-empty", body(b"{}", more=[("content-length", "")]), MALFORMED), ("length-over-64-bits", body(b"{}", more=[("content-length", "18446744073709551618")]), MALFORMED),
    ("hidden-request", body(b"{}" + HIDDEN, more=[("content-length", "2")]), MALFORMED), ("chunks", body(b"2\r\n{}\r\n0\r\n\r\n"), 400),
    ("trailers", trailers([("x", "y")]), 200), ("trailers-pseudo", trailers([(":path", "/hidden")]), MALFORMED), ("trailers-coding", trailers([("transfer-encoding", "chunked")]), MALFORMED),
    ("trailers-length", trailers([("content-length", "9")]), MALFORMED), ("trailers-connection", trailers([("connection", "close")]), MALFORMED),
    ("trailers-host", trailers([("host", "b")]), 200), ("trailers-that-do-not-end", trailers([("x", "y")], END_HEADERS), MALFORMED),
    ("data-after-trailers", trailers([("x", "y")]) + frame(DATA, END_STREAM, 1, b"x"), Away(STREAM_CLOSED)),
    ("data-after-end", body(b"{}") + frame(DATA, END_STREAM, 1, b"x"), Away(STREAM_CLOSED)), ("headers-after-end", whole() + whole(), Away(STREAM_CLOSED)),
    ("window-overflow", body() + window_update(1, 2**31 - 1), Reset(FLOW_CONTROL_ERROR)), ("window-0", body() + window_update(1, 0), Away(PROTOCOL_ERROR)),
]

FRAMES = [
    ("data-on-idle-stream", frame(DATA, END_STREAM, 1, b"x"), Away(PROTOCOL_ERROR)), ("data-on-stream-0", frame(DATA, END_STREAM, 0, b"x"), Away(PROTOCOL_ERROR)),
    ("headers-on-stream-0", headers(0, head()), Away(PROTOCOL_ERROR)), ("headers-on-even-stream", headers(2, head()), Away(PROTOCOL_ERROR)),
    ("headers-on-lower-stream", headers(5, head()) + headers(3, head()), Away(STREAM_CLOSED)), ("push-promise", frame(PUSH_PROMISE, END_HEADERS, 1, b"\0\0\0\2" + fields(head())), Away(PROTOCOL_ERROR)),
    ("reset-of-idle-stream", rst(1), Away(PROTOCOL_ERROR)), ("window-of-idle-stream", window_update(1, 1), Away(PROTOCOL_ERROR)), ("window-0", window_update(0, 0), Away(PROTOCOL_ERROR)),
    ("window-overflow", window_update(0, 2**31 - 1), Away(FLOW_CONTROL_ERROR)), ("priority-on-stream-0", frame(PRIORITY, 0, 0, b"\0\0\0\1\0"), Away(PROTOCOL_ERROR)),
    ("priority-length", frame(PRIORITY, 0, 1, b"\0\0\0"), Away(FRAME_SIZE_ERROR)), ("depends-on-itself", frame(HEADERS, 5 | WITH_PRIORITY, 1, b"\0\0\0\1\0" + fields(head())), Away(PROTOCOL_ERROR)),
    ("reset-length", whole() + frame(RST_STREAM, 0, 1, b"\0"), Away(FRAME_SIZE_ERROR)), ("ping-length", frame(PING, 0, 0, b"1234"), Away(FRAME_SIZE_ERROR)),
    ("ping-on-stream", frame(PING, 0, 1, b"12345678"), Away(PROTOCOL_ERROR)), ("settings-length", frame(SETTINGS, 0, 0, b"1234"), Away(FRAME_SIZE_ERROR)),
    ("settings-ack-length", frame(SETTINGS, 1, 0, b"123456"), Away(FRAME_SIZE_ERROR)), ("settings-on-stream", frame(SETTINGS, 0, 1), Away(PROTOCOL_ERROR)),
    ("settings-window", settings(INITIAL_WINDOW_SIZE=2**31), Away(FLOW_CONTROL_ERROR)), ("settings-frame-size", settings(MAX_FRAME_SIZE=100), Away(PROTOCOL_ERROR)),
    ("settings-push", settings(ENABLE_PUSH=2), Away(PROTOCOL_ERROR)), ("frame-too-large", body() + frame(DATA, 0, 1, b"x" * 16385), Away(FRAME_SIZE_ERROR)),
    ("padding-too-long", body() + frame(DATA, PADDED, 1, b"\xff{}"), Away(PROTOCOL_ERROR)), ("continuation-alone", frame(CONTINUATION, END_HEADERS, 1, fields(head())), Away(PROTOCOL_ERROR)),
    ("continuation-interrupted", frame(HEADERS, END_STREAM, 1, fields(head())) + frame(PING, 0, 0, b"12345678"), Away(PROTOCOL_ERROR)),
    ("continuation-of-other", frame(HEADERS, END_STREAM, 1, fields(head()[:2])) + frame(CONTINUATION, END_HEADERS, 3, fields(head()[2:])), Away(PROTOCOL_ERROR)),
    ("table-index", frame(HEADERS, 5, 1, b"\xff\xff\xff\x0f"), Away(COMPRESSION_ERROR)), ("table-size", frame(HEADERS, 5, 1, b"\x3f\xff\xff\x0f" + fields(head())), Away(COMPRESSION_ERROR)),
    ("huffman", frame(HEADERS, 5, 1, b"\0\x84\xff\xff\xff\xff\x01a"), Away(COMPRESSION_ERROR)), ("cut-block", frame(HEADERS, 5, 1, b"\0\x7f"), Away(COMPRESSION_ERROR)),
    ("http1-inside", HIDDEN, Away(FRAME_SIZE_ERROR)),
]

ALL2 = flat(("fields", FIELDS), ("body", BODIES), ("frames", FRAMES))


@table("data, outcome", ALL2)
def test_http2(f, neighbour, data, outcome):
    with H2(f) as h:
        h.send(data)
        if isinstance(outcome, Away):
            h.await_over()
            assert h.goaway == outcome, h.goaways
        else:
            stream = h.await_end(1)
            assert (stream.reset, stream.status) == ((outcome, None) if isinstance(outcome, Reset) else (None, outcome)), stream
            h.request(101)
            assert h.await_end(101).status == 200
            assert h.goaway is None and set(h.streams) == {1, 101}, h.streams
    ask(neighbour)


def test_preface_with_a_wrong_end_is_no_request(f, neighbour):
    with Wire(f) as wire:
        wire.send(PREFACE[:-3] + b"X\r\n\r\n" + HIDDEN)
        assert [a.status for a in wire.answers()] == [501]
    ask(neighbour)


def test_metrics_say_what_was_refused(f):
    def refused(reason):
        return f.metric('flametree_net_refused_total{reason="%s"}' % reason) or 0
    for reason, data in (("bad_request", get(host=None)), ("head_too_large", get(b"X: " + b"a" * 70000)), ("body_too_large", post(b"Content-Length: 999999999999", body=b""))):
        before = refused(reason)
        with Wire(f) as wire:
            wire.send(data)
            wire.answers()
        assert refused(reason) == before + 1, reason
    for reason, data in (("bad_request", whole(("connection", "close"))), ("bad_request", whole(("host", "b"))), ("bad_frames", headers(0, head()))):
        before = refused(reason)
        with H2(f) as h:
            h.send(data)
            h.await_pong()
        assert refused(reason) == before + 1, reason


def test_nothing_is_left(f, neighbour):
    ask(neighbour)
    for state in ("head", "body", "queued", "held", "answer"):  # the server lets go of an answer a little after its client has it
        await_("the end of those in state " + state, lambda: not f.metric('flametree_net_exchanges{state="%s"}' % state))
