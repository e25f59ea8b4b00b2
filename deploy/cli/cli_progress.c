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
    buf_z(b, "  about ");
    if (seconds >= 86400)
        buf_printf(b, "%llud%lluh", (unsigned long long)(seconds / 86400),
                   (unsigned long long)(seconds / 3600 % 24));
    else if (seconds >= 3600)
        buf_printf(b, "%lluh%llum", (unsigned long long)(seconds / 3600),
                   (unsigned long long)(seconds / 60 % 60));
    else if (seconds >= 60)
        buf_printf(b, "%llum", (unsigned long long)(seconds / 60));
    else
        buf_printf(b, "%llus", (unsigned long long)seconds);
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
