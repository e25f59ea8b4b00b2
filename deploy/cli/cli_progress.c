// SPDX-License-Identifier: Apache-2.0
#include "deploy/cli/cli_progress.h"

#include "sys/clock.h"

#include <stdarg.h>
#include <stdio.h>

#define QUIET_NS  ((uint64_t)NS_PER_S)  // before a line is shown
#define REDRAW_NS ((uint64_t)NS_PER_S / 10)
#define BAR       30u
#define WIDTH     100u

void cli_progress_begin(struct cli_progress *p, struct cli *c)
{
    *p = (struct cli_progress){.shows = c->err_is_tty && !cli_args_has(&c->args, OPT_QUIET),
                               .begin_ns = clock_mono_ns()};
}

static void put_bar(struct buf *b, double share)
{
    unsigned full = (unsigned)(share * BAR);
    buf_byte(b, '[');
    for (unsigned i = 0; i < BAR; i++)
        buf_byte(b, i < full ? '=' : i == full ? '>' : ' ');
    buf_printf(b, "] %3u %%  ", (unsigned)(share * 100));
}

static void put_left(struct buf *b, uint64_t seconds)
{
    static const struct {
        uint64_t seconds;
        const char *unit;
    } units[] = {{86400, "d"}, {3600, "h"}, {60, "m"}, {1, "s"}};
    size_t i = 0;
    while (i + 1 < COUNT(units) && seconds < units[i].seconds)
        i++;
    buf_printf(b, "  about %llu%s", (unsigned long long)(seconds / units[i].seconds),
               units[i].unit);
    // Days with their hours, hours with their minutes.
    if (i < 2) {
        buf_printf(b, "%llu%s",
                   (unsigned long long)(seconds % units[i].seconds / units[i + 1].seconds),
                   units[i + 1].unit);
    }
    buf_z(b, " left");
}

void cli_progress_draw(struct cli_progress *p, double share, const char *fmt, ...)
{
    uint64_t now = clock_mono_ns();
    if (!p->begun) {
        p->begun = true;
        p->from = share;
    }
    if (!p->shows || now - p->begin_ns < QUIET_NS || now - p->drawn_ns < REDRAW_NS) return;
    struct buf b;
    struct buf line;
    char text[256];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    share = MIN(share, 1);
    buf_init(&b, NULL, 4096);
    buf_init(&line, NULL, 4096);
    if (share >= 0) put_bar(&b, share);
    buf_z(&b, text);
    // What is left takes as long as what was done since the start took.
    double done = share - p->from;
    double took = (double)(now - p->begin_ns) / (double)NS_PER_S;
    double left = done > 0 ? took / done * (1 - share) : -1;
    if (share >= 0 && left >= 0 && left < 1e9) put_left(&b, (uint64_t)left);
    buf_z(&line, "\r\x1b[K");
    text_put_cut(&line, buf_view(&b), WIDTH);
    if (!line.failed) fwrite(line.p, 1, line.n, stderr);
    // If the terminal is gone, the work goes on without a line.
    if (fflush(stderr) != 0) p->shows = false;
    buf_release(&line);
    buf_release(&b);
    p->drawn = true;
    p->drawn_ns = now;
}

void cli_progress_erase(struct cli_progress *p)
{
    if (p->drawn) fputs("\r\x1b[K", stderr);
    p->drawn = false;
}
