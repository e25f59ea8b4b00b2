// SPDX-License-Identifier: Apache-2.0
//
// top: the functions with the most self time of the last minutes, drawn again and again on a
// terminal until q or Ctrl-C; elsewhere once.
//
// While it draws, the terminal shows its second screen and passes keys on at once. leave() restores
// it on every way out of the program, also in the signal handler.
#include "deploy/cli/cli_ask.h"
#include "deploy/cli/cli_draw.h"
#include "deploy/cli/cli_file.h"
#include "deploy/cli/cli_merge.h"
#include "deploy/cli/cli_time.h"
#include "sys/clock.h"

#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#define PAGE_MAX     ((size_t)16 << 20)
#define ARENA_MAX    ((size_t)8 << 30)
#define ROWS         20u
#define ROWS_MAX     UINT64_C(1000)
#define ROWS_OF_HEAD 4u  // heading of two lines, titles, an error
#define INTERVAL_MIN ((int64_t)NS_PER_S / 10)
#define ENTER        "\x1b[?1049h\x1b[?25l"
#define LEAVE        "\x1b[?25h\x1b[?1049l"

struct top {
    struct cli *c;
    struct cli_query q;
    int64_t window_ns;
    int64_t interval_ns;
    uint64_t rows;  // 0: as many as fit
    bool live;
};

// ---- the terminal

static struct termios before;
static bool keys_changed;
static int screen_fd = -1;

static void leave(void)
{
    // Runs in the handler of a signal as well: only functions that are safe there.
    if (screen_fd >= 0) {
        ssize_t ignored = write(screen_fd, LEAVE, sizeof LEAVE - 1);
        (void)ignored;
    }
    screen_fd = -1;
    // Twice does no harm: the handler may have come in between.
    if (keys_changed) tcsetattr(STDIN_FILENO, TCSANOW, &before);
    keys_changed = false;
}

static void on_signal(int number)
{
    // Ctrl-C is the usual way out, and so no failure.
    leave();
    _exit(number == SIGINT ? CLI_WELL : 128 + number);
}

static void enter(struct cli *c)
{
    assert(screen_fd < 0 && !keys_changed);
    struct sigaction act = {.sa_handler = on_signal};
    sigaction(SIGINT, &act, NULL);
    sigaction(SIGTERM, &act, NULL);
    sigaction(SIGHUP, &act, NULL);
    if (isatty(STDIN_FILENO) && tcgetattr(STDIN_FILENO, &before) == 0) {
        // Ctrl-C still makes a signal: ISIG stays.
        struct termios keys = before;
        keys.c_lflag &= ~(tcflag_t)(ICANON | ECHO);
        keys_changed = tcsetattr(STDIN_FILENO, TCSANOW, &keys) == 0;
    }
    // Last, and before the screen is switched: a signal from here on switches back, which does no
    // harm if nothing has been written yet.
    screen_fd = c->out_fd;
}

// Waits for the next page; false if q was pressed.
static bool wait_for_key(const struct top *t)
{
    assert(t->live && t->interval_ns > 0);
    uint64_t end = clock_mono_ns() + (uint64_t)t->interval_ns;
    for (uint64_t now = clock_mono_ns(); now < end; now = clock_mono_ns()) {
        // poll() takes no notice of a negative descriptor: without keys it is only a pause.
        struct pollfd in = {.fd = keys_changed ? STDIN_FILENO : -1, .events = POLLIN};
        // Rounded up, or the last part of a millisecond would be a loop without a pause.
        int ms = (int)((end - now) / NS_PER_MS) + 1;
        if (poll(&in, 1, ms) <= 0) continue;
        char key = 0;
        if (read(STDIN_FILENO, &key, 1) <= 0) return false;  // the terminal has been closed
        if (key == 'q' || key == 'Q') return false;
        if (key == ' ' || key == '\n') return true;
    }
    return true;
}

static unsigned rows_of(const struct top *t)
{
    struct winsize size = {0};
    if (t->rows) return (unsigned)t->rows;
    if (!t->live || ioctl(t->c->out_fd, TIOCGWINSZ, &size) != 0 || size.ws_row == 0) return ROWS;
    assert(size.ws_row > 0);
    return size.ws_row > ROWS_OF_HEAD + 1 ? size.ws_row - ROWS_OF_HEAD : 1;
}

// ---- a page

static void put_head(const struct top *t, struct buf *b, int64_t total)
{
    const struct text_look *look = &t->c->look;
    struct draw_unit u = cli_merge_unit(t->q.type);
    char value[TEXT_NUMBER_MAX];
    char window[TEXT_NUMBER_MAX];
    text_ink(b, look->colors, INK_STRONG);
    text_put_cut(b, t->q.type, look->width);
    text_reset(b, look->colors);
    buf_byte(b, '\n');
    text_ink(b, look->colors, INK_DIM);
    buf_printf(b, "%s total in the last %s, until ",
               text_value(value, (double)total * u.factor, u.unit),
               text_value(window, (double)t->window_ns, TEXT_NS));
    cli_time_put(b, t->q.until_ns);
    if (t->live) buf_z(b, "; q ends");
    text_reset(b, look->colors);
    buf_byte(b, '\n');
    if (!t->c->incomplete[0]) return;
    text_put_cut(b, str_of(t->c->incomplete), look->width);
    buf_byte(b, '\n');
}

static bool put_page(struct top *t, struct buf *b, int *status, err *e)
{
    struct cli *c = t->c;
    struct flame f;
    struct flame_function *v = NULL;
    size_t n = 0;
    t->q.until_ns = clock_wall_ns();
    t->q.from_ns = t->q.until_ns - t->window_ns;
    // Anew for each page: the window may have another size by now.
    if (!cli_width(c, e) || !cli_merge_flame(c, &t->q, CLI_MERGE_ALL, &f, e)) return false;
    if (f.count == 0 && !t->live) return cli_query_is_empty(c, &t->q, status, e);
    put_head(t, b, f.total);
    if (f.count == 0) {
        buf_z(b, "no data in this time\n");
        return true;
    }
    if (!flame_functions(&f, &c->arena, &v, &n, e)) return false;
    flame_functions_by_self(v, n);
    size_t rows = rows_of(t);
    if (c->incomplete[0] && rows > 1) rows--;  // for the line that says so
    n = MIN(n, rows);
    for (size_t i = 0; i < n; i++)
        v[i].name = draw_readable(&c->arena, v[i].name);
    draw_functions(b, v, n, f.total, &c->look, cli_merge_unit(t->q.type));
    return true;
}

// Draws the lines over those of the last page, and clears the rest of each line.
static void put_screen(struct buf *out, str page, bool first)
{
    if (first) buf_z(out, ENTER);
    buf_z(out, "\x1b[H");
    for (str rest = page; rest.n;) {
        buf_str(out, str_split(rest, '\n', &rest));
        buf_z(out, "\x1b[K\r\n");
    }
    // Not at the beginning: a screen that is cleared first flickers.
    buf_z(out, "\x1b[J");
}

// Shows one page, in separate memory. An error of a later page is shown in its place, and the next
// page is tried again: the server may be restarting.
static bool show(struct top *t, bool first, int *status, err *e)
{
    struct cli *c = t->c;
    // Functions of other commands allocate in c->arena, which would grow with each page.
    struct arena kept = c->arena;
    struct buf page;
    struct buf out;
    err fault = {0};
    arena_init(&c->arena, NULL, ARENA_MAX);
    buf_init(&page, NULL, PAGE_MAX);
    buf_init(&out, NULL, PAGE_MAX);
    assert(first || t->live);
    bool ok = put_page(t, &page, status, &fault);
    if (!ok && !first) {
        buf_clear(&page);
        // Cut: a second line would shift the page.
        text_put_cut(&page, str_of(fault.msg), c->look.width);
        buf_byte(&page, '\n');
        ok = true;
    }
    if (ok && t->live) {
        if (first) enter(c);  // only now: an error of the first page goes to the ordinary screen
        put_screen(&out, buf_view(&page), first);
    } else if (ok) {
        buf_str(&out, buf_view(&page));
    }
    if (!ok)
        *e = fault;
    else
        ok = cli_write(c, &out, e);
    buf_release(&page);
    buf_release(&out);
    arena_release(&c->arena);
    c->arena = kept;
    return ok;
}

static bool read_options(struct top *t, err *e)
{
    struct cli *c = t->c;
    if (!cli_duration(c, OPT_WINDOW, &t->window_ns, e) ||
        !cli_duration(c, OPT_INTERVAL, &t->interval_ns, e) ||
        !cli_args_number(&c->args, OPT_ROWS, 1, ROWS_MAX, &t->rows, e) || !cli_width(c, e))
        return false;
    // A server that answers slowly is not asked more often than it can answer: pages follow each
    // other.
    t->interval_ns = MAX(t->interval_ns, INTERVAL_MIN);
    return true;
}

bool cli_top(struct cli *c, int *status, err *e)
{
    struct top t = {.c = c, .live = c->out_is_tty};
    const char *query = c->args.operand_count ? c->args.operands[0] : "";
    if (cli_is_file(query)) {
        if (!read_options(&t, e)) return cli_wrong(status);
        return cli_top_file(c, query, t.rows ? t.rows : ROWS, status, e);
    }
    bool typed = cli_args_has(&c->args, OPT_TYPE) || (query[0] && query[0] != '{');
    str text = arena_printf(&c->arena, "%s%s", typed ? "" : "cpu", query);
    if (!arena_ok(&c->arena, e)) return false;
    if (!read_options(&t, e)) return cli_wrong(status);
    t.q.until_ns = c->now_wall_ns;
    t.q.from_ns = t.q.until_ns - t.window_ns;
    if (!cli_query_read(c, text.p, &t.q, status, e)) return false;
    bool ok = show(&t, true, status, e);
    while (ok && t.live && wait_for_key(&t))
        ok = show(&t, false, status, e);
    // Does nothing if the screen was never switched.
    leave();
    return ok;
}
