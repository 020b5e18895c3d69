/* The report as a page, in headless Chromium where it is installed: it draws, sorts and filters, asks nobody
 * for anything, and takes names as text. */
#include "tests/support/evaluation_model.h"
#include "tests/support/forward_models.h"
#include "tests/support/one_model.h"

static void need_chromium(void) {
    if (run_command((const char *const[]){"chromium", "--version", NULL}, NULL, NULL) == 0) return;
    print_message("skipped: no chromium\n");
    skip();
}

/* The document after its scripts have run; malloc'ed. */
static char *document(const char *html) {
    char *url, *profile, *out;
    const char *copy = in_folder(folder, "copy.html");
    write_whole(copy, html, strlen(html));
    assert_true(asprintf(&url, "file://%s", copy) > 0);
    assert_true(asprintf(&profile, "--user-data-dir=%s/profile", folder) > 0);
    const char *argv[] = {"timeout",
                          "120",
                          "chromium",
                          "--headless=new",
                          "--no-sandbox",
                          "--disable-gpu",
                          "--disable-dev-shm-usage",
                          profile,
                          "--window-size=1280,900",
                          "--virtual-time-budget=20000",
                          "--dump-dom",
                          url,
                          NULL};
    int status = run_command(argv, &out, NULL);
    free(url), free(profile);
    unlink(copy);
    assert_int_equal(status, 0);
    return out;
}

/* The page, and `extra` after its scripts. */
static char *rendered(const char *page, const char *extra) {
    char *text = (char *)read_whole(page, NULL), *longer;
    assert_true(asprintf(&longer, "%s<script>%s</script>", text, extra) > 0);
    char *dom = document(longer);
    free(text), free(longer);
    return dom;
}

/* As wide as a telephone it scrolls up and down only. In a frame, since windows have a least width. */
static void assert_narrow(const char *page) {
    char *text = (char *)read_whole(page, NULL), *html;
    assert_true(
        asprintf(
            &html,
            "<!doctype html><body><textarea id=t>%s</textarea>"
            "<iframe id=f style='width:375px;height:900px;border:0'></iframe><script>"
            "f.onload = () => { const d = f.contentDocument, all = d.scrollingElement.scrollWidth;"
            "document.body.dataset.ready = d.getElementById('main').dataset.ready;"
            "document.body.dataset.fits = f.contentWindow.innerWidth === 375 && all <= 375;"
            /* what matters of an evaluation is seen without scrolling to the side */
            "document.body.dataset.seen = ['models', 'quantiles'].every(id => { const t = "
            "d.getElementById(id); return !t || t.parentNode.scrollWidth <= t.parentNode.clientWidth; });"
            "t.remove(); f.remove(); };"
            "f.srcdoc = t.value;</script>",
            text) > 0);
    char *dom = document(html);
    if (!strstr(dom, "data-ready=\"yes\"") || !strstr(dom, "data-fits=\"true\"") ||
        !strstr(dom, "data-seen=\"true\""))
        fail_msg("%.300s", dom);
    free(dom), free(text), free(html);
}

enum { LEGEND = 48 }; /* cells of the heat map's legend */

static size_t count(const char *text, const char *what) {
    size_t n = 0;
    for (const char *at = text; (at = strstr(at, what)); at++) n++;
    return n;
}

/* The part of the document from one mark to the next. */
static char *part(const char *dom, const char *from, const char *to) {
    const char *start = strstr(dom, from), *end = start ? strstr(start, to) : NULL;
    if (!end) fail_msg("the document lacks %s ... %s", from, to);
    return strndup(start, (size_t)(end - start));
}

static void assert_rows(const char *dom, const char *table, size_t n) {
    char *mark, *text;
    assert_true(asprintf(&mark, "id=\"%s\"", table) > 0);
    text = part(dom, mark, "</table>");
    assert_int_equal(count(text, "</tr>"), n + 1); /* and the head */
    free(mark), free(text);
}

TEST(test_outside_resources) {
    const char *page = in_folder(folder, "r.html"), *out = in_folder(folder, "out.gguf");
    GQUANT(0, "-q", "-r", page, source, out, "Q4_0");
    char *text = (char *)read_whole(page, NULL);
    static const char *const outside[] = {"src=",   "href=",          "url(",  "@import",
                                          "fetch(", "XMLHttpRequest", "https:"};
    for (size_t i = 0; i < sizeof outside / sizeof *outside; i++)
        if (strstr(text, outside[i])) fail_msg("the page has %s", outside[i]);
    assert_int_equal(count(text, "http:"), 1); /* the name of SVG's namespace, which is no address */
    free(text);
    unlink(page), unlink(out);
}

TEST(test_run) {
    need_chromium();
    const char *page = in_folder(folder, "r.html"), *out = in_folder(folder, "out.gguf");
    GQUANT(0, "-q", "-r", page, "--imatrix", matrix, source, out, "Q4_K_M");
    model_source m = open_model(out);
    size_t n = m.n_tensors, norms = 0;
    for (size_t i = 0; i < n; i++) norms += strstr(m.tensors[i]->name, "norm") != NULL;
    model_close(&m);
    char *dom = rendered(page, "");
    assert_non_null(strstr(dom, "data-ready=\"yes\""));
    assert_rows(dom, "tensors", n);
    assert_rows(dom, "worst", 10);
    assert_non_null(strstr(dom, "<b>Q4_K_M</b>"));
    assert_non_null(strstr(dom, "<code>--imatrix imatrix.dat</code>"));
    assert_non_null(strstr(dom, "effort default"));
    assert_non_null(strstr(dom, gq_isa()));
    assert_null(strstr(dom, folder)); /* names of files only */
    assert_true(strstr(dom, "id=\"heatmap\"") < strstr(dom, "id=\"layers\""));
    assert_true(strstr(dom, "id=\"layers\"") < strstr(dom, "id=\"worst\""));
    assert_non_null(strstr(dom, "--colour:var(--c4)\">Q4_K</")); /* in every report */
    char *lines = part(dom, "id=\"layers\"", "</svg>");
    assert_int_equal(count(lines, "<path"), 7); /* roles of a layer without those kept */
    free(lines);
    char *map = part(dom, "id=\"heatmap\"", "</svg>"), *points = part(dom, "id=\"scatter\"", "</svg>");
    assert_null(strstr(map, "norm")); /* roles that were kept tell nothing */
    assert_int_equal(count(map, "<rect"), n - norms + LEGEND);
    assert_true(count(points, "<title>") > n / 2);
    assert_non_null(strstr(map, "blk.1.ffn_down.weight"));
    char *bars = part(dom, "id=\"sizes\"", "</svg>"), *roles = part(dom, "id=\"roles\"", "</svg>");
    assert_non_null(strstr(bars, "Q4_K"));
    assert_non_null(strstr(roles, "ffn_down"));
    free(dom), free(map), free(points), free(bars), free(roles);
    assert_narrow(page);
    GQUANT(0, "-q", "--force", "--full-paths", "-r", page, "--imatrix", matrix, source, out, "IQ4_NL");
    dom = rendered(page, "");
    assert_non_null(strstr(dom, source));
    assert_non_null(strstr(dom, matrix));
    free(dom);
    unlink(page), unlink(out);
}

/* Several copies: who is nearest, then each by itself. */
TEST(test_copies) {
    need_chromium();
    const char *page = in_folder(folder, "r.html"), *a = in_folder(folder, "model-Q4_0.gguf"),
               *b = in_folder(folder, "model-Q8_0.gguf"), *c = in_folder(folder, "model-Q4_K_M.gguf");
    GQUANT(0, "-q", "--out-dir", folder, source, "Q4_0", "Q8_0", "Q4_K_M");
    GQUANT(0, "compare", "-q", "-r", page, source, a, b, c);
    model_source m = open_model(a);
    char *dom = rendered(page, "");
    assert_non_null(strstr(dom, "data-ready=\"yes\""));
    assert_rows(dom, "outputs", 3);
    assert_rows(dom, "copies", m.n_tensors);
    char *map = part(dom, "id=\"winners\"", "</svg>"), *table = part(dom, "id=\"copies\"", "</table>");
    assert_int_equal(count(map, "<rect"), m.n_tensors);
    assert_true(count(table, "type best") > m.n_tensors / 2);
    free(dom), free(map), free(table);
    dom = rendered(page, "const o = document.getElementById('output'); o.value = '2';"
                         "o.dispatchEvent(new Event('change'));");
    assert_rows(dom, "tensors", m.n_tensors);
    assert_null(strstr(dom, "id=\"copies\""));
    free(dom);
    assert_narrow(page);
    model_close(&m);
    unlink(page), unlink(a), unlink(b), unlink(c);
}

/* What the page's own title is; it stands before those of the charts' parts. */
static void assert_title(const char *dom, const char *wanted) {
    char *title = part(dom, "<title>", "</title>");
    if (strcmp(title + strlen("<title>"), wanted)) fail_msg("the title is %s, not %s", title, wanted);
    free(title);
}

/* In a column all numbers have as many decimals; texts in a chart do not lie on each other. */
static const char looks[] =
    "const columns = id => { const rows = [...document.querySelectorAll('#' + id + ' tbody tr')];"
    "const heads = [...document.querySelectorAll('#' + id + ' th')];"
    "return heads.map((h, i) => [id + ': ' + h.textContent, rows.map(r => r.children[i].textContent)]); };"
    "const decimals = t => (t.split('.')[1] || '').length;"
    "const uneven = ['outputs', 'tensors', 'models', 'quantiles'].flatMap(columns).filter(([h, cells]) => "
    "!/divergence|perplexity|multiple/.test(h) && new Set(cells.filter(t => "
    "/^[0-9.]+$/.test(t)).map(decimals)).size > 1)"
    ".map(([h]) => h);"
    "document.body.dataset.uneven = uneven.join('; ') || 'none';"
    "const apart = (a, b) => a.right <= b.left + 1 || b.right <= a.left + 1 || a.bottom <= b.top + 3 || "
    "b.bottom <= a.top + 3;"
    "const over = [...document.querySelectorAll('svg')].flatMap(s => { const all = "
    "[...s.querySelectorAll('text')];"
    "return all.filter((t, i) => all.some((o, k) => k < i && !apart(t.getBoundingClientRect(), "
    "o.getBoundingClientRect()))).map(t => s.id + ': ' + t.textContent); });"
    "document.body.dataset.over = over.join('; ') || 'none';";

static void assert_looks(const char *page) {
    char *dom = rendered(page, looks);
    if (!strstr(dom, "data-uneven=\"none\"") || !strstr(dom, "data-over=\"none\""))
        fail_msg("%.600s", strstr(dom, "<body"));
    free(dom);
}

/* Nine outputs: all are named, and the title tells which is shown. */
TEST(test_nine_outputs) {
    need_chromium();
    static const char *const types[] = {"Q2_K",   "Q3_K_S", "Q3_K_M", "Q4_0", "Q4_K_S",
                                        "Q4_K_M", "Q5_K_M", "Q6_K",   "Q8_0"};
    enum { N = sizeof types / sizeof *types };
    const char *page = in_folder(folder, "r.html"), *words[N + 8] = {"compare", "-q", "-r", page, source};
    char *nine = strdup(in_folder(folder, "nine"));
    const char *run[N + 8] = {"-q", "-r", page, "--out-dir", nine, source};
    for (size_t i = 0; i < N; i++) {
        char *name;
        assert_true(asprintf(&name, "%s/model-%s.gguf", nine, types[i]) > 0);
        words[5 + i] = name, run[6 + i] = types[i];
    }
    free(gquant(0, run));
    char *dom = rendered(page, "");
    assert_int_equal(count(dom, "<b>Q"), N);
    assert_title(dom, "model-Q2_K.gguf from model-F16.gguf \u2013 gquant");
    free(dom);
    dom = rendered(page, "const o = document.getElementById('output'); o.value = '8';"
                         "o.dispatchEvent(new Event('change'));");
    assert_title(dom, "model-Q8_0.gguf from model-F16.gguf \u2013 gquant");
    free(dom);
    assert_looks(page);
    free(gquant(0, words));
    dom = rendered(page, "");
    assert_int_equal(count(dom, "<b>Q"), N);
    assert_title(dom, "Q2_K, Q3_K_S, Q3_K_M, Q4_0, Q4_K_S, Q4_K_M, Q5_K_M, Q6_K, Q8_0 compared with "
                      "model-F16.gguf \u2013 gquant");
    free(dom);
    assert_looks(page);
    assert_narrow(page);
    for (size_t i = 0; i < N; i++) free((void *)words[5 + i]);
    unlink(page);
    remove_folder(nine);
}

TEST(test_sort_and_filter) {
    need_chromium();
    const char *page = in_folder(folder, "r.html"), *out = in_folder(folder, "out.gguf");
    GQUANT(0, "-q", "-r", page, source, out, "Q4_K_M");
    char *dom = rendered(page, "const head = [...document.querySelectorAll('#tensors th button')].find(b => "
                               "b.textContent === 'rel. error');"
                               "const select = document.getElementById('metric');"
                               "select.value = 'ratio'; select.dispatchEvent(new Event('change'));"
                               "document.body.dataset.ratio = /multiple of the median/.test("
                               "document.getElementById('heatmap').textContent);"
                               "head.click();" /* largest first */
                               "const errors = [...document.querySelectorAll('#tensors tbody tr')].map(r => "
                               "parseFloat(r.children[7].textContent)).filter(x => x === x);"
                               "document.body.dataset.sorted = errors.length > 5 && errors.every((x, i) => i "
                               "=== 0 || x <= errors[i - 1]);"
                               "head.click();"
                               "document.body.dataset.turned = document.querySelector('#tensors "
                               "th[aria-sort]').getAttribute('aria-sort');"
                               "const filter = document.getElementById('filter');"
                               "filter.value = 'ATTN_Q'; filter.dispatchEvent(new Event('input'));"
                               "document.body.dataset.filtered = [...document.querySelectorAll('#tensors "
                               "tbody tr')].every(r => r.textContent.includes('attn_q'));");
    assert_non_null(strstr(dom, "data-ratio=\"true\""));
    assert_non_null(strstr(dom, "data-sorted=\"true\""));
    assert_non_null(strstr(dom, "data-turned=\"ascending\""));
    assert_non_null(strstr(dom, "data-filtered=\"true\""));
    free(dom);
    unlink(page), unlink(out);
}

TEST(test_plan_comparison_and_several_outputs) {
    need_chromium();
    const char *page = in_folder(folder, "r.html"), *a = in_folder(folder, "model-Q4_0.gguf");
    GQUANT(0, "-q", "-n", "-r", page, source, "Q4_K_M");
    char *dom = rendered(page, "");
    assert_non_null(strstr(dom, "data-ready"));
    assert_non_null(strstr(dom, "bits per weight"));
    assert_null(strstr(dom, "id=\"worst\""));
    free(dom);
    assert_narrow(page);
    GQUANT(0, "-q", "-r", page, "--out-dir", folder, source, "Q4_0", "Q8_0");
    dom = rendered(
        page,
        "const o = document.getElementById('output'); o.value = '1'; o.dispatchEvent(new Event('change'));");
    assert_rows(dom, "outputs", 2);
    char *bars = part(dom, "id=\"sizes\"", "</svg>");
    assert_non_null(strstr(bars, "Q8_0"));
    assert_null(strstr(bars, "Q4_0"));
    free(dom), free(bars);
    GQUANT(0, "compare", "-q", "-r", page, source, a);
    dom = rendered(page, "");
    assert_non_null(strstr(dom, "Compared with"));
    assert_non_null(strstr(dom, "data-ready"));
    free(dom);
    unlink(page), unlink(a), unlink(in_folder(folder, "model-Q8_0.gguf"));
}

/* 2,000 tensors, some with names that would like to be more than names. */
TEST(test_many_tensors_and_hostile_names) {
    need_chromium();
    static const char *const roles[] = {
        "attn_q", "attn_k", "attn_v", "attn_output", "ffn_up", "ffn_gate", "ffn_down", "a", "b", "c",
        "d",      "e",      "f",      "g",           "h",      "i",        "j",        "k", "l", "m"};
    static const char *const hostile[] = {"</script><script>document.title='owned'</script>.weight",
                                          "<img src=x onerror=document.title='owned'>.weight",
                                          "\"><b>&amp;\xff\u2028.weight", "__proto__", "@REPORT@"};
    const char *big = in_folder(folder, "big.gguf"), *out = in_folder(folder, "out.gguf"),
               *page = in_folder(folder, "r.html");
    model *m = model_new("llama", 100);
    for (size_t i = 0; i < 5; i++) model_add(m, hostile[i], GGUF_F32, (uint64_t[4]){256, 1 + i}, NULL);
    for (int layer = 0; layer < 100; layer++)
        for (size_t i = 0; i < 20; i++) {
            char name[64];
            snprintf(name, sizeof name, "blk.%d.%s.weight", layer, roles[i]);
            model_add(m, name, GGUF_F32, (uint64_t[4]){256, 2}, NULL);
        }
    model_save(m, big);
    GQUANT(0, "-q", "-r", page, big, out, "Q4_K_M");
    char *dom = rendered(page, "");
    assert_non_null(strstr(dom, "data-ready=\"yes\""));
    assert_rows(dom, "tensors", 2005);
    char *map = part(dom, "id=\"heatmap\"", "</svg>"), *title = part(dom, "<title>", "</title>");
    assert_int_equal(count(map, "<rect"),
                     2002 + LEGEND); /* the others are kept: one row, or not named as a weight */
    assert_null(strstr(title, "owned"));
    assert_null(strstr(dom, "<img"));
    assert_null(strstr(dom, "<b>&amp;"));
    assert_non_null(strstr(dom, "\\xff\\u2028.weight")); /* what is no text, and what would act on it */
    free(dom), free(map), free(title);
    assert_narrow(page);
    unlink(big), unlink(out), unlink(page);
}

/* An evaluation alone, and one behind a run. */
TEST(test_evaluation) {
    need_chromium();
    const char *page = in_folder(folder, "r.html"), *in = in_folder(folder, "runs.gguf"),
               *small = in_folder(folder, "q2.gguf"), *out = in_folder(folder, "q8.gguf"),
               *text = in_folder(folder, "text");
    model_save(evaluation_model(1), in);
    char letters[512];
    for (size_t i = 0; i < sizeof letters; i++) letters[i] = (char)('a' + i * i * 3 % 8);
    write_whole(text, letters, sizeof letters);
    GQUANT(0, "-q", in, small, "Q2_K");
    GQUANT(0, "-q", "-r", page, "--evaluate", text, in, out, "Q8_0");
    char *dom = rendered(page, "");
    assert_non_null(strstr(dom, "data-ready=\"yes\""));
    assert_rows(dom, "models", 2);
    assert_true(strstr(dom, "id=\"divergence\"") < strstr(dom, "id=\"heatmap\""));
    free(dom);
    GQUANT(0, "-q", "evaluate", "-r", page, "--context", "32", in, small, out, "--text", text);
    dom = rendered(page, "");
    assert_non_null(strstr(dom, "data-ready=\"yes\""));
    assert_rows(dom, "models", 3), assert_rows(dom, "quantiles", 2), assert_rows(dom, "pairs", 1);
    char *sizes = part(dom, "id=\"divergence\"", "</svg>"),
         *lines = part(dom, "id=\"percentiles\"", "</svg>");
    assert_int_equal(count(sizes, "<circle"), 2);
    assert_int_equal(count(lines, "<path"), 2);
    assert_title(dom, "Q2_K, Q8_0 evaluated beside runs.gguf \u2013 gquant");
    free(sizes), free(lines), free(dom);
    assert_narrow(page);
    assert_looks(page);
    unlink(page), unlink(in), unlink(small), unlink(out), unlink(text);
}

/* An encoder's figures are of embeddings, and nothing on the page speaks of tokens that it predicts. */
TEST(test_embeddings) {
    need_chromium();
    const char *page = in_folder(folder, "r.html"), *in = in_folder(folder, "encoder.gguf"),
               *out = in_folder(folder, "q8.gguf"), *ids = in_folder(folder, "ids");
    model_save(variant_model(variant_named("bert"), GGUF_F32, NULL), in);
    FILE *f = fopen(ids, "w");
    for (size_t i = 0; i < 64; i++) fprintf(f, "%u\n", variant_id(i * 3 + i / 7));
    assert_int_equal(fclose(f), 0);
    GQUANT(0, "-q", in, out, "Q8_0");
    GQUANT(0, "-q", "evaluate", "-r", page, "--context", "16", in, out, "--ids", ids);
    char *dom = rendered(page, "");
    assert_non_null(strstr(dom, "data-ready=\"yes\""));
    char *main = part(dom, "<main", "</main>");
    assert_null(strstr(main, "perplexity")), assert_null(strstr(main, "nats"));
    assert_non_null(strstr(main, "cosine distances")), assert_non_null(strstr(main, "Single texts"));
    assert_rows(dom, "models", 2);
    free(main), free(dom);
    unlink(page), unlink(in), unlink(out), unlink(ids);
}

int main(void) { return tests_run(set_up, tear_down); }
