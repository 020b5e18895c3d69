#include "quantize/study/calibrate/settings.h"

#include "base/checksum.h"

uint32_t calibration_settings_digest(const calibration_settings *s) { return checksum_add(0, s, sizeof *s); }

uint64_t calibration_held_most(const calibration_settings *s, bool is_routed) {
    uint64_t all = calibration_held(s).n * s->context * s->loops;
    return is_routed && all > s->expert_held ? s->expert_held : all;
}
