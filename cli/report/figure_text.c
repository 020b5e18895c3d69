#include <math.h>

#include "cli/cli.h"

char *estimate_text(gq_estimate x) {
    if (!isfinite(x.error)) return text_format("%.4g", x.value);
    if (!(x.error > 0)) return text_format("%.6g", x.value);
    int decimals = 1 - (int)floor(log10(x.error));
    if (decimals < 0) decimals = 0;
    if (decimals > 12) return text_format("%.3g +-%.2g", x.value, x.error);
    return text_format("%.*f +-%.*f", decimals, x.value, decimals, x.error);
}

char *perplexity_text(gq_estimate x) {
    return isfinite(x.error) ? text_format("%.4f +-%.4f", x.value, x.error) : text_format("%.4f", x.value);
}

char *kld_text(double x) { return x >= 1e-4 ? text_format("%.5f", x) : text_format("%.2g", x); }

char *share_text(gq_estimate x) { return text_format("%.2f %%", 100 * x.value); }

char *interval_text(const gq_interval *i, double factor) {
    double half = (i->high - i->low) / 2 * factor;
    int decimals = half > 0 ? 1 - (int)floor(log10(half)) : 4;
    if (decimals < 0) decimals = 0;
    if (decimals > 8) decimals = 8;
    if (isnan(i->low)) return text_format("%.4g", factor * i->value);
    return text_format("%.*f (%.*f to %.*f)", decimals, factor * i->value, decimals, factor * i->low,
                       decimals, factor * i->high);
}

gq_interval interval_of(const gq_evaluation *v, gq_statistic of, size_t a, size_t b) {
    gq_interval to = {NAN, NAN, NAN, 0};
    gq_evaluation_interval(v, of, a, b, &to, NULL);
    return to;
}
