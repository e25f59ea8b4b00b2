// SPDX-License-Identifier: Apache-2.0
#include "compactor/duties.h"

#include "codec/json.h"

static const struct duty duties[] = {
#define DUTY(name_, state_, sentence_) \
    {.name = #name_, .state = DUTY_##state_, .sentence = (sentence_)},
#include "compactor/duties.def"
#undef DUTY
};

const struct duty *duties_list(size_t *count)
{
    *count = COUNT(duties);
    return duties;
}

const char *duty_state_name(enum duty_state s)
{
    static const char *const names[] = {
        [DUTY_BUILT] = "built", [DUTY_NOT_BUILT] = "not built", [DUTY_OFF] = "off"};
    static_assert(COUNT(names) == DUTY_STATES, "every state has a name");
    assert(s < DUTY_STATES);
    return names[s];
}

enum duty_state duty_state(const struct duty *d, bool on)
{
    return d->state == DUTY_BUILT && !on ? DUTY_OFF : d->state;
}

void duties_print(struct buf *out, bool on)
{
    buf_z(out, "{\"duties\":[");
    for (size_t i = 0; i < COUNT(duties); i++) {
        const struct duty *d = &duties[i];
        buf_z(out, i ? ",{\"name\":" : "{\"name\":");
        json_put_string(out, str_of(d->name));
        buf_z(out, ",\"state\":");
        json_put_string(out, str_of(duty_state_name(duty_state(d, on))));
        buf_z(out, ",\"does\":");
        json_put_string(out, str_of(d->sentence));
        buf_byte(out, '}');
    }
    buf_z(out, "]}\n");
}
