// SPDX-License-Identifier: Apache-2.0
//
// cluster.c - GET /cluster: the members as this node knows them, the names that are looked up, the
// streams that are registered in the store, this node itself and its backlog; as a page for people,
// or as JSON.
#include "codec/json.h"
#include "codec/url.h"
#include "manifest/registry.h"
#include "service/html.h"
#include "service/program.h"

#include <inttypes.h>

#define PAGE_MAX  ((size_t)8 << 20)
#define LOAD_HIGH 0.9  // shown as ill

// The page is shown without streams if the store has not listed them by then.
#define STREAMS_NS   ((uint64_t)(2 * NS_PER_S))
#define STREAMS_WORK ((size_t)64 << 20)

// All that is shown, from one moment.
struct view {
    struct program *p;
    struct arena *a;
    struct buf *out;
    uint64_t mono_ns;
    int64_t wall_ns;
    id128 cluster;
    bool ready;
    str why;  // it is not, a line for each service
    struct member_facts *members;
    size_t member_count;
    struct discover_name *names;
    size_t name_count;
    struct registered streams;  // to be released
    bool has_streams;
    err streams_fault;  // why not; ERR_OK: this node has no store
};

static void look_at_streams(struct view *v)
{
    struct req r;
    if (!v->p->registry) return;
    req_init(&r, RANK_PUBLIC, NULL, STREAMS_WORK, STREAMS_NS);
    v->has_streams =
        registry_read(v->p->registry, &r, v->a->budget, &v->streams, &v->streams_fault);
    req_release(&r);
}

static bool look(struct view *v, struct program *p, struct http_exchange *x, err *e)
{
    struct buf why;
    struct discoverer *d = atomic_load(&p->discoverer);
    *v = (struct view){.p = p,
                       .a = &x->req.arena,
                       .mono_ns = clock_mono_ns(),
                       .wall_ns = clock_wall_ns()};
    (void)node_cluster(p, &v->cluster);
    buf_init(&why, NULL, 4096);
    v->ready = admin_is_ready(p, &why);
    v->why = arena_str(v->a, buf_view(&why));
    buf_release(&why);
    v->members = members_facts(p->members, v->a, &v->member_count);
    if (d) v->names = discover_names(d, v->a, &v->name_count);
    look_at_streams(v);
    return arena_ok(v->a, e);
}

static uint64_t ago_ns(const struct view *v, uint64_t mono_ns)
{
    // A call may have ended since the view's moment.
    return v->mono_ns > mono_ns ? v->mono_ns - mono_ns : 0;
}

static bool is_self(const struct view *v, const struct member_facts *f)
{
    return str_eq(f->member.address, v->p->identity.address);
}

static const char *state_of(const struct member_facts *f)
{
    return !f->member.alive ? "dead" : f->member.unready ? "unready" : "alive";
}

static const char *state_of_name(const struct discover_name *n)
{
    return n->failing ? "failing" : n->answered_mono_ns ? "found" : "not asked yet";
}

// The process that registered the stream.
static const char *owner_of(const struct view *v, const struct registered_stream *s)
{
    const char *state = "in no list";
    if (s->node.n == 0) return "not known";
    if (id128_eq(s->boot, v->p->identity.boot)) return "this node";
    for (size_t i = 0; i < v->member_count; i++) {
        const struct member_facts *f = &v->members[i];
        if (id128_eq(f->boot, s->boot)) return state_of(f);
        if (f->member.kind == MEMBER_INGESTER && str_eq(f->member.id, s->node))
            state = f->member.alive ? "former process" : "dead";
    }
    return str_eq(s->node, v->p->identity.node) ? "former process" : state;
}

static size_t backlog_of(const struct unit *u, struct service_backlog rows[SERVICE_BACKLOG_MAX])
{
    bool started = atomic_load_explicit(&u->started, memory_order_acquire);
    return started && u->service->backlog ? u->service->backlog(u->self, rows) : 0;
}

// ---- as JSON

static void put_key(struct buf *out, const char *key)
{
    buf_printf(out, ",\"%s\":", key);
}

static void json_text(struct buf *out, const char *key, str s)
{
    put_key(out, key);
    json_put_string(out, s);
}

static void json_id(struct buf *out, const char *key, id128 id)
{
    char text[ULID_TEXT] = "";
    if (node_knows(id)) ulid_print(id, text);
    json_text(out, key, str_of(text));
}

// null: never.
static void json_time(const struct view *v, const char *key, uint64_t mono_ns)
{
    char text[CLOCK_TEXT];
    if (mono_ns)
        json_text(v->out, key, str_of(clock_text(text, v->wall_ns - (int64_t)ago_ns(v, mono_ns))));
    else
        buf_printf(v->out, ",\"%s\":null", key);
}

static void json_words(struct buf *out, const char *key, str words)
{
    const char *before = "";
    put_key(out, key);
    buf_byte(out, '[');
    while (words.n) {
        str word = str_split(words, ' ', &words);
        buf_z(out, before);
        json_put_string(out, word);
        before = ",";
    }
    buf_byte(out, ']');
}

// null: it is not known.
static void json_list(struct buf *out, uint64_t list)
{
    char text[17] = "";
    if (list) snprintf(text, sizeof text, "%016" PRIx64, list);
    if (list)
        json_text(out, "list", str_of(text));
    else
        buf_z(out, ",\"list\":null");
}

static void json_self(const struct view *v)
{
    const struct node_identity *n = &v->p->identity;
    char time[CLOCK_TEXT];
    buf_z(v->out, "{\"node\":{\"id\":");
    json_put_string(v->out, n->node);
    put_key(v->out, "services");
    for (size_t i = 0; i < n->service_count; i++) {
        buf_byte(v->out, i ? ',' : '[');
        json_put_string(v->out, n->services[i]);
    }
    buf_z(v->out, n->service_count ? "]" : "[]");
    json_text(v->out, "address", n->address);
    json_text(v->out, "version", str_of(service_version));
    json_id(v->out, "cluster", v->cluster);
    json_id(v->out, "boot", n->boot);
    json_id(v->out, "directory", n->directory);
    buf_printf(v->out, ",\"ready\":%s", v->ready ? "true" : "false");
    json_text(v->out, "why", v->why);
    put_key(v->out, "load");
    json_put_double(v->out, node_load(v->p));
    json_list(v->out, members_list_print(v->p->members));
    json_text(v->out, "time", str_of(clock_text(time, v->wall_ns)));
    buf_byte(v->out, '}');
}

static void json_answer(const struct view *v, const struct member_facts *f)
{
    buf_z(v->out, ",\"last_answer\":");
    if (!f->answered_mono_ns) {
        buf_z(v->out, "null");
        return;
    }
    buf_printf(v->out, "{\"ready\":%s", f->member.unready ? "false" : "true");
    json_time(v, "at", f->answered_mono_ns);
    json_text(v->out, "version", f->version);
    json_id(v->out, "cluster", f->cluster);
    json_id(v->out, "boot", f->boot);
    json_id(v->out, "directory", f->directory);
    json_words(v->out, "services", f->services);
    put_key(v->out, "load");
    json_put_double(v->out, f->load);
    json_list(v->out, f->list);
    buf_byte(v->out, '}');
}

static void json_member(const struct view *v, const struct member_facts *f)
{
    const struct member *m = &f->member;
    buf_printf(v->out, "{\"kind\":\"%s\"", member_kind_names[m->kind]);
    json_text(v->out, "id", m->id);
    json_text(v->out, "address", m->address);
    buf_printf(v->out, ",\"source\":\"%s\",\"self\":%s,\"state\":\"%s\"",
               f->found ? "name" : "list", is_self(v, f) ? "true" : "false", state_of(f));
    if (m->kind == MEMBER_INGESTER) buf_printf(v->out, ",\"weight\":%u", member_weight(m));
    json_time(v, "since", f->since_mono_ns);
    json_time(v, "heard", f->heard_mono_ns);
    buf_printf(v->out, ",\"failures_in_a_row\":%u,\"last_failure\":", f->failures);
    if (f->failed_mono_ns) {
        buf_z(v->out, "{\"why\":");
        json_put_string(v->out, f->why);
        json_time(v, "at", f->failed_mono_ns);
        buf_byte(v->out, '}');
    } else {
        buf_z(v->out, "null");
    }
    json_answer(v, f);
    buf_byte(v->out, '}');
}

static void json_name(const struct view *v, const struct discover_name *n)
{
    buf_printf(v->out, "{\"kind\":\"%s\",\"state\":\"%s\"", member_kind_names[n->kind],
               state_of_name(n));
    json_text(v->out, "name", n->name);
    put_key(v->out, "addresses");
    buf_byte(v->out, '[');
    for (size_t i = 0; i < n->n; i++) {
        if (i > 0) buf_byte(v->out, ',');
        json_put_string(v->out, n->addresses[i]);
    }
    buf_byte(v->out, ']');
    json_time(v, "found", n->answered_mono_ns);
    json_time(v, "failed", n->failed_mono_ns);
    json_text(v->out, "why", n->why);
    buf_byte(v->out, '}');
}

static void json_backlog(const struct view *v)
{
    const char *before = "";
    buf_z(v->out, ",\"backlog\":[");
    for (size_t i = 0; i < v->p->unit_count; i++) {
        struct service_backlog rows[SERVICE_BACKLOG_MAX];
        const struct unit *u = &v->p->units[i];
        size_t n = backlog_of(u, rows);
        for (size_t k = 0; k < n; k++) {
            buf_printf(v->out, "%s{\"service\":\"%s\",\"what\":\"%s\",\"amount\":%" PRIu64 "}",
                       before, u->service->name, rows[k].what, rows[k].n);
            before = ",";
        }
    }
    buf_byte(v->out, ']');
}

static void json_wall(const struct view *v, const char *key, int64_t wall_ns)
{
    char text[CLOCK_TEXT];
    json_text(v->out, key, str_of(clock_text(text, wall_ns)));
}

// null: this node does not know them.
static void json_streams(const struct view *v)
{
    put_key(v->out, "streams");
    if (!v->has_streams) {
        buf_z(v->out, "null");
        json_text(v->out, "streams_fault", str_of(v->streams_fault.msg));
        return;
    }
    buf_byte(v->out, '[');
    for (size_t i = 0; i < v->streams.n; i++) {
        const struct registered_stream *s = &v->streams.v[i];
        buf_printf(v->out, "%s{\"log\":\"%s\",\"process\":\"%s\"", i ? "," : "",
                   stream_log_name(s->log), owner_of(v, s));
        json_id(v->out, "stream", s->stream);
        json_text(v->out, "node", s->node);
        json_text(v->out, "address", s->address);
        json_id(v->out, "boot", s->boot);
        json_id(v->out, "directory", s->directory);
        json_wall(v, "made", s->made_ns);
        json_wall(v, "rows_from", s->rows_from_ns);
        if (s->node.n == 0) json_text(v->out, "unread", s->why);
        buf_byte(v->out, '}');
    }
    buf_byte(v->out, ']');
}

static void put_json(const struct view *v)
{
    json_self(v);
    buf_printf(v->out, ",\"lists\":%zu,\"members\":[", members_lists(v->p->members));
    for (size_t i = 0; i < v->member_count; i++) {
        if (i > 0) buf_byte(v->out, ',');
        json_member(v, &v->members[i]);
    }
    buf_z(v->out, "],\"names\":[");
    for (size_t i = 0; i < v->name_count; i++) {
        if (i > 0) buf_byte(v->out, ',');
        json_name(v, &v->names[i]);
    }
    buf_byte(v->out, ']');
    json_streams(v);
    if (v->p->registry) {
        put_key(v->out, "registrations");
        registry_print(v->p->registry, v->out);
    }
    json_backlog(v);
    buf_z(v->out, "}\n");
}

// ---- as a page

static void put_ago(const struct view *v, uint64_t mono_ns)
{
    html_age(v->out, (int64_t)ago_ns(v, mono_ns));
    buf_z(v->out, " ago");
}

static void put_id(struct buf *out, const char *name, id128 id)
{
    char text[ULID_TEXT];
    if (!node_knows(id)) return;
    ulid_print(id, text);
    buf_printf(out, "<br><small>%s %s</small>", name, text);
}

static void put_list(struct buf *out, uint64_t list)
{
    if (list) buf_printf(out, "<br><small>list %016" PRIx64 "</small>", list);
}

static void put_load(struct buf *out, double load)
{
    buf_printf(out, "<td class=\"n%s\">%.0f %%", load >= LOAD_HIGH ? " ill" : "", load * 100);
}

static void put_self(const struct view *v)
{
    const struct node_identity *n = &v->p->identity;
    char cluster[ULID_TEXT] = "not known yet";
    if (node_knows(v->cluster)) ulid_print(v->cluster, cluster);
    buf_z(v->out, "<p>This node is <strong>");
    html_text(v->out, n->node);
    buf_z(v->out, "</strong>, ");
    if (v->ready) {
        buf_z(v->out, "<span class=\"well\">ready</span>");
    } else {
        buf_z(v->out, "<span class=\"ill\">not ready: ");
        html_text(v->out, str_trim(v->why));
        buf_z(v->out, "</span>");
    }
    buf_printf(v->out,
               ". Cluster of its store: %s.\n<table><tr><th>node<th>services<th>address"
               "<th>version<th>load\n<tr><td>",
               cluster);
    html_text(v->out, n->node);
    put_id(v->out, "boot", n->boot);
    put_id(v->out, "directory", n->directory);
    put_list(v->out, members_list_print(v->p->members));
    buf_z(v->out, "<td>");
    for (size_t i = 0; i < n->service_count; i++) {
        if (i > 0) buf_byte(v->out, ' ');
        html_text(v->out, n->services[i]);
    }
    buf_z(v->out, "<td>");
    html_text(v->out, n->address);
    buf_z(v->out, "<td>");
    html_text(v->out, str_of(service_version));
    put_load(v->out, node_load(v->p));
    buf_z(v->out, "\n</table>\n");
}

static void put_backlog(const struct view *v)
{
    bool any = false;
    for (size_t i = 0; i < v->p->unit_count; i++) {
        struct service_backlog rows[SERVICE_BACKLOG_MAX];
        const struct unit *u = &v->p->units[i];
        size_t n = backlog_of(u, rows);
        if (n && !any)
            buf_z(v->out, "<h2>Backlog of this node</h2>\n"
                          "<table><tr><th>service<th>what<th>amount\n");
        for (size_t k = 0; k < n; k++) {
            buf_printf(v->out, "<tr><td>%s<td>", u->service->name);
            for (const char *c = rows[k].what; *c; c++)
                buf_byte(v->out, *c == '_' ? ' ' : (unsigned char)*c);
            buf_printf(v->out, "<td class=\"n\">%" PRIu64 "\n", rows[k].n);
        }
        any = any || n > 0;
    }
    if (any) buf_z(v->out, "</table>\n");
}

static void put_state(const struct view *v, const struct member_facts *f)
{
    if (is_self(v, f)) {
        buf_z(v->out, "<td class=\"well\">this node<td>");
        return;
    }
    bool well = f->member.alive && !f->member.unready;
    buf_printf(v->out, "<td class=\"%s\">%s", well ? "well" : "ill", state_of(f));
    buf_z(v->out, "<br><small>for ");
    html_age(v->out, (int64_t)ago_ns(v, f->since_mono_ns));
    buf_z(v->out, "</small><td>");
    if (f->heard_mono_ns)
        put_ago(v, f->heard_mono_ns);
    else
        buf_z(v->out, "never");
}

static void put_failure(const struct view *v, const struct member_facts *f)
{
    buf_z(v->out, "<td>");
    if (!f->failed_mono_ns) return;
    html_text(v->out, f->why);
    buf_z(v->out, "<br><small>");
    put_ago(v, f->failed_mono_ns);
    if (f->failures > 1) buf_printf(v->out, ", %u in a row", f->failures);
    buf_z(v->out, "</small>");
}

static void put_member(const struct view *v, const struct member_facts *f)
{
    const struct member *m = &f->member;
    bool stray =
        node_knows(f->cluster) && node_knows(v->cluster) && !id128_eq(f->cluster, v->cluster);
    buf_printf(v->out, "<tr><td>%s<td>", member_kind_names[m->kind]);
    html_text(v->out, m->id);
    put_id(v->out, "boot", f->boot);
    put_id(v->out, "directory", f->directory);
    if (stray) {
        buf_z(v->out, "<br><span class=\"ill\">another cluster</span>");
        put_id(v->out, "cluster", f->cluster);
    }
    buf_z(v->out, "<td>");
    html_text(v->out, m->address);
    buf_printf(v->out, "<br><small>%s</small>", f->found ? "found by name" : "of the list");
    if (m->kind == MEMBER_INGESTER && member_weight(m) != MEMBER_WEIGHT)
        buf_printf(v->out, "<br><small>weight %u</small>", member_weight(m));
    put_list(v->out, is_self(v, f) ? members_list_print(v->p->members) : f->list);
    put_state(v, f);
    put_failure(v, f);
    buf_z(v->out, "<td>");
    html_text(v->out, f->services);
    buf_z(v->out, "<td>");
    html_text(v->out, f->version);
    if (f->answered_mono_ns)
        put_load(v->out, f->load);
    else
        buf_z(v->out, "<td>");
    buf_byte(v->out, '\n');
}

static void put_members(const struct view *v)
{
    size_t well = 0;
    for (size_t i = 0; i < v->member_count; i++)
        well += v->members[i].member.alive && !v->members[i].member.unready;
    buf_printf(v->out,
               "<h2>Members</h2>\n<p>%zu of %zu are alive and ready. What this node knows: "
               "others may have heard something else.\n",
               well, v->member_count);
    size_t lists = members_lists(v->p->members);
    if (lists > 1) {
        buf_printf(v->out,
                   "<p class=\"ill\">Lists of ingesters differ: this node and the members that "
                   "answer it have %zu. Queries look for rows with clients' ids in two places.\n",
                   lists);
    }
    if (v->member_count == 0) return;
    buf_z(v->out, "<table><tr><th>kind<th>id<th>address<th>state<th>heard<th>last failure"
                  "<th>services<th>version<th>load\n");
    for (size_t i = 0; i < v->member_count; i++)
        put_member(v, &v->members[i]);
    buf_z(v->out, "</table>\n");
}

static void put_name(const struct view *v, const struct discover_name *n)
{
    buf_printf(v->out, "<tr><td>%s<td>", member_kind_names[n->kind]);
    html_text(v->out, n->name);
    buf_printf(v->out, "<td class=\"%s\">%s<td>", n->failing ? "ill" : "well", state_of_name(n));
    for (size_t i = 0; i < n->n; i++) {
        if (i > 0) buf_z(v->out, "<br>");
        html_text(v->out, n->addresses[i]);
    }
    if (n->answered_mono_ns) {
        buf_z(v->out, n->n ? "<br><small>" : "<small>");
        put_ago(v, n->answered_mono_ns);
        buf_z(v->out, "</small>");
    }
    buf_z(v->out, "<td>");
    if (n->failed_mono_ns) {
        html_text(v->out, n->why);
        buf_z(v->out, "<br><small>");
        put_ago(v, n->failed_mono_ns);
        buf_z(v->out, "</small>");
    }
    buf_byte(v->out, '\n');
}

static void put_names(const struct view *v)
{
    if (v->name_count == 0) return;
    buf_z(v->out, "<h2>Names</h2>\n<table><tr><th>kind<th>name<th>state<th>last found"
                  "<th>last failure\n");
    for (size_t i = 0; i < v->name_count; i++)
        put_name(v, &v->names[i]);
    buf_z(v->out, "</table>\n");
}

static void put_stream(const struct view *v, const struct registered_stream *s)
{
    char ulid[ULID_TEXT];
    char time[CLOCK_TEXT];
    const char *owner = owner_of(v, s);
    bool well = strcmp(owner, "alive") == 0 || strcmp(owner, "this node") == 0;
    ulid_print(s->stream, ulid);
    buf_printf(v->out, "<tr><td>%s<td>", ulid);
    html_text(v->out, s->node);
    buf_z(v->out, "<br><small>");
    html_text(v->out, s->node.n ? s->address : s->why);
    buf_printf(v->out, "</small><td class=\"%s\">%s<td>%s<td>%s", well ? "well" : "ill", owner,
               stream_log_name(s->log), clock_text(time, s->made_ns));
    buf_printf(v->out, "<td>%s\n", s->rows_from_ns ? clock_text(time, s->rows_from_ns) : "");
}

static void put_streams(const struct view *v)
{
    if (!v->p->process.store) return;
    buf_z(v->out, "<h2>Streams</h2>\n");
    if (!v->has_streams) {
        buf_z(v->out, "<p class=\"ill\">The store does not list them: ");
        html_text(v->out, str_of(v->streams_fault.msg));
        buf_byte(v->out, '\n');
        return;
    }
    buf_printf(v->out,
               "<p>%zu registered in the store, %zu of these registrations cannot be read. Answers "
               "need the profiles of each.\n"
               "<table><tr><th>stream<th>ingester<th>process<th>log<th>registered"
               "<th>profiles from\n",
               v->streams.n, v->streams.unread);
    for (size_t i = 0; i < v->streams.n; i++)
        put_stream(v, &v->streams.v[i]);
    buf_z(v->out, "</table>\n");
}

static void put_page(const struct view *v)
{
    char time[CLOCK_TEXT];
    html_begin(v->out, "Cluster");
    put_self(v);
    put_members(v);
    put_names(v);
    put_streams(v);
    put_backlog(v);
    buf_printf(v->out,
               "<p>As of %s. <a href=\"cluster?format=json\">As JSON</a>, <a "
               "href=\"metrics\">metrics</a>, <a href=\"routes\">routes</a>\n</html>\n",
               clock_text(time, v->wall_ns));
}

bool cluster_get(void *self, struct http_exchange *x, err *e)
{
    struct view v;
    str format = {0};
    bool given = url_query(&x->req.arena, x->query, "format", &format);
    if (given && !str_is(format, "json") && !str_is(format, "html"))
        return err_set(e, ERR_INVALID_ARGUMENT, "format is '%.*s', must be json or html",
                       STR(format));
    bool page = given ? str_is(format, "html")
                      : route_accepts(http_headers_get(&x->headers, "accept"), S("text/html"));
    if (!look(&v, self, x, e)) {
        registered_release(&v.streams);
        return false;
    }
    x->status = 200;
    buf_release(&x->out);
    buf_init(&x->out, x->req.arena.budget, PAGE_MAX);
    v.out = &x->out;
    route_header(x, "vary", S("Accept, Accept-Encoding"));
    route_header(x, "content-type", page ? S("text/html; charset=utf-8") : S("application/json"));
    if (page) route_header(x, "content-security-policy", S(HTML_POLICY));
    if (page)
        put_page(&v);
    else
        put_json(&v);
    registered_release(&v.streams);
    return buf_ok(&x->out, e);
}
