#include "quantize/study/calibrate/settings.h"

#include "base/checksum.h"

uint32_t calibration_settings_digest(const calibration_settings *s) { return checksum_add(0, s, sizeof *s); }

uint64_t calibration_held_most(const calibration_settings *s, bool is_routed) {
    uint64_t windows = s->held_every ? s->windows / s->held_every : 0, all = windows * s->context;
    all *= s->loops;
    return is_routed && all > s->expert_held ? s->expert_held : all;
}
