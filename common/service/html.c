// SPDX-License-Identifier: Apache-2.0
#include "service/html.h"

#include "sys/clock.h"

#include <inttypes.h>

#define MINUTE (60 * NS_PER_S)

void html_begin(struct buf *out, const char *title)
{
    buf_z(out, "<!doctype html><html lang=\"en\"><meta charset=\"utf-8\"><meta name=\"viewport\" "
               "content=\"width=device-width\"><title>Flametree: ");
    buf_z(out, title);
    buf_z(out, "</title>\n<style>"
               ":root{color-scheme:light dark;--text:#222;--back:#fff;--line:#ccc;--head:#f3f3f3;"
               "--dim:#595959;--link:#0550ae;--ill:#a30000;--well:#1a6b1a}"
               "@media (prefers-color-scheme:dark){:root{--text:#ddd;--back:#161616;--line:#444;"
               "--head:#262626;--dim:#a8a8a8;--link:#8ab4f8;--ill:#ff8a80;--well:#8bc98b}}"
               "body{font:14px/1.4 system-ui,sans-serif;margin:1.5em;color:var(--text);"
               "background:var(--back)}a{color:var(--link)}"
               "table{display:block;overflow-x:auto;border-collapse:collapse;margin:0 0 1em}"
               "th,td{border:1px solid var(--line);padding:.2em .6em;text-align:left;"
               "vertical-align:top}td:nth-child(2){white-space:nowrap}"
               "th{background:var(--head);font-weight:600}.n{text-align:right}"
               "small{color:var(--dim)}.ill{color:var(--ill);font-weight:600}"
               ".well{color:var(--well)}</style>\n"
               "<h1>");
    buf_z(out, title);
    buf_z(out, "</h1>\n");
}

void html_text(struct buf *out, str s)
{
    for (size_t i = 0; i < s.n; i++) {
        switch (s.p[i]) {
        case '<':
            buf_z(out, "&lt;");
            break;
        case '>':
            buf_z(out, "&gt;");
            break;
        case '&':
            buf_z(out, "&amp;");
            break;
        case '"':
            buf_z(out, "&quot;");
            break;
        default:
            buf_byte(out, (unsigned char)s.p[i]);
        }
    }
}

void html_age(struct buf *out, int64_t ns)
{
    int64_t minutes = ns / MINUTE;
    if (minutes < 1)
        buf_printf(out, "%" PRId64 " s", ns / NS_PER_S);
    else if (minutes < 60)
        buf_printf(out, "%" PRId64 " min", minutes);
    else if (minutes < INT64_C(48) * 60)
        buf_printf(out, "%" PRId64 " h %" PRId64 " min", minutes / 60, minutes % 60);
    else
        buf_printf(out, "%" PRId64 " d %" PRId64 " h", minutes / 1440, minutes / 60 % 24);
}
