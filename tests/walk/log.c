// SPDX-License-Identifier: Apache-2.0
#include "walk/log.h"

#include "base/fault.h"
#include "ingester/flush/flush.h"
#include "ingester/log/wal_int.h"
#include "ingester/metrics.h"
#include "sys/file.h"

#include <dirent.h>
#include <errno.h>
#include <sys/stat.h>

static struct world *walked;

// Pushes write entries, those that a stalled ingester took as well: from several threads.
static bool write_fails(struct world *w, uint64_t sides)
{
    if (atomic_load(&w->calm)) return false;
    pthread_mutex_lock(&w->lock);
    bool fails = roll(&w->log_dice, sides) == 0;
    w->counts.broken += fails;
    pthread_mutex_unlock(&w->lock);
    if (fails) errno = EIO;
    return fails;
}

// There may be something to do for a flush, which it must not do.
static void wake_flushes(struct world *w)
{
    pthread_mutex_lock(&w->lock);
    for (unsigned i = 0; i < w->node_count; i++) {
        if (w->nodes[i].up) flush_wake(w->nodes[i].whole.in->flush);
    }
    pthread_mutex_unlock(&w->lock);
}

// The mistake: a cut counts as whole while its log is read again.
static void forget_doubt(struct world *w)
{
    struct cut *cuts[64];
    pthread_mutex_lock(&w->lock);
    for (unsigned i = 0; i < w->node_count; i++) {
        if (!w->nodes[i].up) continue;
        struct wal *wal = w->nodes[i].whole.in->wal;
        size_t n = MIN(wal_cuts(wal, cuts, COUNT(cuts)), COUNT(cuts));
        lock_take(&wal->lock);
        for (size_t k = 0; k < n; k++)
            cuts[k]->in_doubt = false;
        lock_give(&wal->lock);
    }
    pthread_mutex_unlock(&w->lock);
}

// Generations of ids turn long before they are full.
static bool is_early(struct world *w)
{
    if (!w->forgets_ids) return false;
    pthread_mutex_lock(&w->lock);
    bool early = roll(&w->log_dice, 4) > 0;
    pthread_mutex_unlock(&w->lock);
    return early;
}

static bool decide(const char *name)
{
    struct world *w = walked;
    bool often = w->mistake == READY_EARLY;
    if (strcmp(name, "wal.write.before") == 0) return write_fails(w, 80);
    // The entry is there all the same.
    if (strcmp(name, "wal.sync.after") == 0) {
        bool fails = write_fails(w, often ? 6 : 30);
        if (fails) atomic_store(&w->doubtful, atomic_load(&w->row_count));
        return fails;
    }
    if (strcmp(name, "flush.ids.early") == 0) return is_early(w);
    home_pause(w, name);
    if (strcmp(name, "wal.recover") != 0) return false;
    if (w->mistake == READY_EARLY) forget_doubt(w);
    for (int i = 0; i < (often ? 20 : 6); i++) {  // much may happen meanwhile
        wake_flushes(w);
        gate_wait(&w->gate);
    }
    return false;
}

void walk_log_on(struct world *w)
{
    walked = w;
    fault_on(decide);
}

void walk_log_off(void)
{
    fault_on(NULL);
}

// ---- damage

static uint64_t told(void)
{
    return (uint64_t)atomic_load(&ingester_log_lost_profiles.cells[0].sum);
}

#define FILES_MOST 200

// A table or a write-ahead file, any of them, with something in it.
static bool choose_file(const char *dir, struct dice *d, char path[512])
{
    char names[FILES_MOST][64];
    size_t n = 0;
    DIR *at = opendir(dir);
    if (!at) return false;
    for (struct dirent *f; (f = readdir(at)) && n < FILES_MOST;) {
        struct stat st;
        str name = str_of(f->d_name);
        snprintf(path, 512, "%s/%.60s", dir, f->d_name);
        if (!str_ends(name, S(".log")) && !str_ends(name, S(".sst"))) continue;
        if (stat(path, &st) == 0 && st.st_size)
            snprintf(names[n++], sizeof names[0], "%.60s", f->d_name);
    }
    closedir(at);
    if (n) snprintf(path, 512, "%s/%s", dir, names[roll(d, n)]);
    return n > 0;
}

void walk_log_damage(struct world *w, struct node *n, struct dice *d)
{
    char dir[DIR_PATH_MAX];
    char path[512];
    struct buf bytes;
    w->told_before = told();
    // Once: the first damage may take what tells of a second one.
    if (atomic_load(&w->calm) || w->in_store || w->damaged || roll(d, 3) == 0) return;
    if (!choose_file(dir_path(dir, n->dir, "ingester/log"), d, path)) return;
    w->damaged = true;
    if (roll(d, 4) == 0) {
        assert_int_equal(unlink(path), 0);
        return;
    }
    buf_init(&bytes, NULL, (size_t)1 << 28);
    assert_ok(file_read(path, &bytes, e));
    size_t at = (size_t)roll(d, bytes.n);
    bytes.p[at] = (char)(bytes.p[at] ^ 4);
    assert_ok(file_write(path, buf_view(&bytes), e));
    buf_release(&bytes);
}

void walk_log_told(struct world *w)
{
    uint64_t rows = told() - w->told_before;
    pthread_mutex_lock(&w->lock);
    w->counts.lost += rows;
    if (w->mistake != SILENT_LOSS) w->may_lack += rows;
    if (rows && w->mistake != SILENT_LOSS) w->lack_end = atomic_load(&w->row_count);
    pthread_mutex_unlock(&w->lock);
}

bool walk_log_forgives(struct world *w, unsigned number)
{
    pthread_mutex_lock(&w->lock);
    bool before = w->lacks[number];
    bool forgiven = before || w->may_lack > 0;
    if (!before && forgiven) {
        w->lacks[number] = true;
        w->may_lack--;
    }
    pthread_mutex_unlock(&w->lock);
    return forgiven;
}

bool walk_log_spares(struct world *w, unsigned number)
{
    pthread_mutex_lock(&w->lock);
    bool spared = !w->lacks[number] && (w->may_lack == 0 || number >= w->lack_end);
    pthread_mutex_unlock(&w->lock);
    return spared;
}

bool walk_log_may_double(struct world *w, unsigned number)
{
    pthread_mutex_lock(&w->lock);
    bool may = number < w->lack_end;
    pthread_mutex_unlock(&w->lock);
    return may;
}

void walk_log_wait(struct node *n)
{
    id128 streams[WAL_DAMAGED_MAX];
    if (wal_damaged(n->whole.in->wal, streams)) world_advance(WAL_DAMAGE_TOLD_NS + NS_PER_S);
    assert_int_equal(wal_damaged(n->whole.in->wal, streams), 0);
}
