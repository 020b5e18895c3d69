/* The tables of commands and options, from which parsing, --help and completion follow; options.h
 * explains the columns and how to add a row. An option's row says where in a request its argument goes
 * (offsetof), how the argument is parsed (OPTION_*), whether it is a file that is read or written (ARGUMENT_*),
 * and which commands take it, one letter per command below.
 * --help prints those marked COMMON; `help all` prints all in the order of the table, each heading above its own. A
 * row without a help text is an alias: it is parsed but never shown. The first command is the main job, the only one
 * without a name.
 */
#include <string.h>

#include "cli/cli.h"

const command_row commands[] = {
    {CMD_QUANTIZE, NULL, "[options] IN [OUT] TYPE [THREADS]", "quantize a GGUF model", 1, SIZE_MAX, NULL},
    {CMD_INFO, "info", "FILE", "show metadata, tensors and types of a model", 1, 1,
     "gquant info model-Q4_K_M.gguf"},
    {CMD_PLAN, "plan", "[--ram SIZE] MODEL", "list sizes, memory to run, and what fits", 1, 1,
     "gquant plan --ram 16Gi model-F16.gguf"},
    {CMD_COMPARE, "compare", "BASE QUANT...", "measure the weight errors of quantized models", 2, SIZE_MAX,
     "gquant compare model-F16.gguf ours-Q4_K_M.gguf theirs-Q4_K_M.gguf"},
    {CMD_VERIFY, "verify", "FILE...", "check structure, values, codes and checksums", 1, SIZE_MAX,
     "gquant verify --report loss.json model-Q4_K_M.gguf"},
    {CMD_EVALUATE, "evaluate", "BASE [QUANT...] --text TEXT | --speed MODEL...",
     "run models: perplexity, KL divergence, speed", 1, SIZE_MAX,
     "gquant evaluate model-F16.gguf model-Q4_K_M.gguf --text held-out.txt"},
    {CMD_IMATRIX, "imatrix", "compute MODEL TEXT... OUT | show|merge|convert ...",
     "importance matrix: compute, show, merge, convert", 2, SIZE_MAX,
     "gquant imatrix compute model-F16.gguf text.txt imatrix.gguf"},
    {CMD_TOKENIZE, "tokenize", "MODEL TEXT", "show a text's tokens, one id per line", 2, 2,
     "gquant tokenize --count model-Q4_K_M.gguf text.txt"},
    {CMD_PUBLISH, "publish", "MODEL --out-dir DIR [TYPE...] [--ladder]",
     "make a folder of quantized models with a model card", 1, SIZE_MAX,
     "gquant publish Qwen3-8B/ --out-dir Qwen3-8B-GGUF Q4_K_M Q6_K"},
    {CMD_TEXT, "text", "--calibration OUT | --held-out OUT", "write a text to calibrate or to evaluate with",
     0, 0, "gquant text --calibration text.txt --held-out held-out.txt"},
    {CMD_TYPES, "types", "[RECIPE]", "list the file types, or print a recipe", 0, 1, "gquant types Q4_K_L"},
    {CMD_COMPLETION, "completion", "bash|zsh|fish", "print a completion script for a shell", 1, 1,
     "gquant completion bash > /etc/bash_completion.d/gquant"},
    {CMD_HELP, "help", "[COMMAND | all | classes]",
     "print options, or the classes of folders that can be read", 0, 2, "gquant help imatrix"},
    {CMD_VERSION, "version", "", NULL, 0, 0, NULL},
};
const size_t n_commands = sizeof commands / sizeof *commands;

const command_row *command_of(command id) {
    for (size_t i = 0; i < n_commands; i++)
        if (commands[i].id == id) return &commands[i];
    return NULL;
}

const command_row *command_named(const char *name) {
    for (size_t i = 0; i < n_commands; i++)
        if (commands[i].name && strcmp(name, commands[i].name) == 0) return &commands[i];
    return NULL;
}

const char *command_nearest(const char *name) {
    const char *words[n_commands];
    size_t n = 0;
    for (size_t i = 0; i < n_commands; i++)
        if (commands[i].name && commands[i].summary) words[n++] = commands[i].name;
    return text_nearest_word(name, words, n);
}

const char *const effort_names[] = {
    [GQ_EFFORT_DEFAULT] = "default", [GQ_EFFORT_FAST] = "fast", [GQ_EFFORT_BEST] = "best", NULL};

const char *const mmproj_types[] = {"F16", "BF16", "F32", "Q8_0", NULL};

enum {
    Q = CMD_QUANTIZE,
    I = CMD_INFO,
    C = CMD_COMPARE,
    V = CMD_VERIFY,
    M = CMD_IMATRIX,
    P = CMD_PLAN,
    T = CMD_TOKENIZE,
    E = CMD_EVALUATE,
    B = CMD_PUBLISH,
    X = CMD_TEXT,
    ALL = 2 * CMD_TEXT - 1
};
#define HEADING(text) \
    { .help = (text) }
/* The type of a member of request, and what option_store writes into it for each kind of argument. */
enum {
    IS_BOOL,
    IS_INT,
    IS_UINT32,
    IS_UINT64,
    IS_FLOAT,
    IS_DOUBLE,
    IS_TEXT,
    IS_LIST,
    IS_TARGETS,
    IS_ADAPTERS,
    FLAG_IS = IS_BOOL,
    TEXT_IS = IS_TEXT,
    KEPT_IS = IS_TEXT,
    MMPROJ_IS = IS_TEXT,
    LIST_IS = IS_LIST,
    PAIRS_IS = IS_LIST,
    ITEMS_IS = IS_LIST,
    RECIPE_IS = IS_LIST,
    NUMBER_IS = IS_INT,
    EFFORT_IS = IS_INT,
    PROGRESS_IS = IS_INT,
    COUNT_IS = IS_UINT64,
    SIZE_IS = IS_UINT64,
    SIZE_OR_0_IS = IS_UINT64,
    TARGET_SIZE_IS = IS_TARGETS,
    TARGET_BITS_IS = IS_TARGETS,
    SHARE_IS = IS_FLOAT,
    DURATION_IS = IS_DOUBLE,
    PART_IS = IS_UINT32, /* and the one behind it */
    ADAPTER_IS = IS_ADAPTERS,
    FACTOR_IS = IS_ADAPTERS
};
#define TYPE_OF(member) \
    _Generic(((request *)0)->member, \
        bool: IS_BOOL, \
        int: IS_INT, \
        uint32_t: IS_UINT32, \
        uint64_t: IS_UINT64, \
        float: IS_FLOAT, \
        double: IS_DOUBLE, \
        const char *: IS_TEXT, \
        gq_list: IS_LIST, \
        gq_target *: IS_TARGETS, \
        gq_adapters: IS_ADAPTERS)
_Static_assert(offsetof(request, quantize.parts) == offsetof(request, quantize.part) + sizeof(uint32_t),
               "--part stores two numbers");
/* The member's offset. What does not compile: a member of another type than the kind stores, which would be written
 * over, and what is behind it; and what rank 0 alone has, if option_clear does not know the kind. */
#define MEMBER(kind, member, commands) \
    (offsetof(request, member) + \
     0 * sizeof(struct { \
         _Static_assert(TYPE_OF(member) == kind##_IS, "the member has not the type that this kind stores"); \
         _Static_assert(!((commands)&ONE_RANK) || OPTION_##kind <= OPTION_TEXT || \
                            OPTION_##kind == OPTION_PROGRESS, \
                        "option_clear does not know this kind"); \
         char c; \
     }))
#define FLAG(name, letter, member, commands, help) \
    { name, letter, NULL, OPTION_FLAG, ARGUMENT_WORD, MEMBER(FLAG, member, commands), commands, help }
#define VALUE(name, letter, argument, kind, is, member, commands, help) \
    { name, letter, argument, OPTION_##kind, ARGUMENT_##is, MEMBER(kind, member, commands), commands, help }

const option_row options[] = {
    HEADING("Types:"),
    VALUE("imatrix", 0, "FILE", TEXT, IN_FILE, quantize.imatrix, Q | C | P | B | COMMON,
          "importance matrix (.dat or GGUF, also gzipped)"),
    VALUE("include-weights", 0, "TEXT", LIST, WORD, quantize.include_weights, Q | P,
          "use the imatrix only for names with TEXT"),
    VALUE("exclude-weights", 0, "TEXT", LIST, WORD, quantize.exclude_weights, Q | P,
          "do not use the imatrix for names with TEXT"),
    VALUE("missing-importance", 0, "TYPE", TEXT, TENSOR_TYPE, quantize.missing_importance, Q | P,
          "type for tensors that lack a required imatrix"),
    VALUE("calibrate", 0, "TEXT", TEXT, IN_FILE, calibrate, Q | B | COMMON | FORWARD,
          "GPTQ-style rounding by TEXT (or @random)"),
    VALUE("calibrate-ids", 0, "FILE", TEXT, IN_FILE, calibrate_ids, Q | FORWARD,
          "in place of its text: token ids, or chats"),
    VALUE("calibrate-tokens", 0, "N", COUNT, WORD, calibrate_tokens, Q | B,
          "use N of its tokens; default: 65536"),
    VALUE("calibrate-time", 0, "TIME", DURATION, WORD, calibration.seconds, Q,
          "the best that TIME allows here: 2h, 45m"),
    VALUE("calibrate-steps", 0, "LIST", TEXT, WORD, calibration.steps, Q,
          "steps to do, or -NAME,...: to leave out"),
    VALUE("correction", 0, "A", SHARE, WORD, calibration.correction, Q, "0 to 1: share of the GPTAQ term"),
    VALUE("damp", 0, "A", SHARE, WORD, calibration.damp, Q, "0 to 1: damping of the Hessian (0.01)"),
    VALUE("shrink", 0, "A", SHARE, WORD, calibration.shrink, Q, "0 to 1: shrinkage to the diagonal (0.3)"),
    VALUE("arithmetic", 0, "KIND", TEXT, WORD, calibration.arithmetic, Q | B | M,
          "products in float32 or bf16 (fast with AMX)"),
    VALUE("target-size", 0, "SIZE", TARGET_SIZE, WORD, targets, Q | B | COMMON,
          "best mix of SIZE: 7.5G, or that of Q4_K_M"),
    VALUE("target-bpw", 0, "BITS", TARGET_BITS, WORD, targets, Q | B, "the same, by bits per weight (4.6)"),
    VALUE("measure-file", 0, "FILE", KEPT, KEPT_FILE, quantize.measure_file, Q | P | B | SAME_FILES,
          "keep a target's measurements here, or 'none'"),
    FLAG("pure", 0, quantize.pure, Q, "give every tensor the base type, no mix"),
    VALUE("tensor-type", 0, "REGEX=TYPE", ITEMS, WORD, quantize.tensor_types, Q | P | B | COMMON,
          "TYPE for matching names; the first match wins"),
    VALUE("custom-q", 0, "REGEX=TYPE", ITEMS, WORD, quantize.tensor_types, Q | P, NULL),
    VALUE("tensor-type-file", 0, "FILE", RECIPE, IN_FILE, quantize.tensor_types, Q | P | B,
          "read REGEX=TYPE items from FILE"),
    VALUE("like", 0, "GGUF", TEXT, IN_FILE, like, Q, "tensor types of another file"),
    FLAG("strict", 0, quantize.strict, Q, "fail where rows do not fit a tensor's type"),
    FLAG("tensor-scales", 0, quantize.tensor_scales, Q, "give NVFP4 matrices a factor, NAME.scale"),
    VALUE("output-tensor-type", 0, "TYPE", TEXT, TENSOR_TYPE, quantize.output_tensor_type, Q | P,
          "type of output.weight"),
    VALUE("token-embedding-type", 0, "TYPE", TEXT, TENSOR_TYPE, quantize.token_embedding_type, Q | P,
          "type of the token embedding"),
    FLAG("leave-output-tensor", 0, quantize.leave_output_tensor, Q | P, "keep output.weight unchanged"),
    VALUE("keep", 0, "REGEX", LIST, WORD, quantize.keep, Q | P | B, "keep matching tensors unchanged"),
    VALUE("transpose", 0, "REGEX", LIST, WORD, quantize.transpose, Q | P,
          "write matching matrices transposed"),
    FLAG("allow-requantize", 0, quantize.allow_requantize, Q | B,
         "accept tensors that are already quantized"),
    VALUE("effort", 0, "LEVEL", EFFORT, EFFORT, quantize.effort, Q | B,
          "search for codes: fast, default or best"),
    VALUE("reuse", 0, "OLD", LIST, OLD_FILE, quantize.reuse, Q | B | SAME_FILES,
          "copy unchanged tensors of an earlier output"),
    HEADING("Model:"),
    VALUE("prune-layers", 0, "N,N,...", TEXT, WORD, quantize.prune_layers, Q | P,
          "leave out these layers, counted from 0"),
    FLAG("no-mtp", 0, quantize.no_mtp, Q | P | B, "leave out MTP layers"),
    FLAG("no-nextn", 0, quantize.no_mtp, Q | P | B, NULL),
    FLAG("mtp-only", 0, quantize.mtp_only, Q, "write these alone, as a draft"),
    FLAG("mtp", 0, quantize.mtp_only, Q, NULL),
    VALUE("override-kv", 0, "KEY=T:VALUE", PAIRS, WORD, quantize.override_kv, Q | P | B,
          "set metadata; T: int, float, bool, str, file"),
    VALUE("lora", 0, "ADAPTER", ADAPTER, IN_FOLDER, quantize.adapters,
          Q | I | C | E | M | P | T | B | PROJECTOR, "merge a LoRA adapter (PEFT folder) into IN"),
    VALUE("lora-scale", 0, "A", FACTOR, WORD, quantize.adapters, Q | I | C | E | M | P | T | B | PROJECTOR,
          "factor of the --lora before it; default: 1"),
    VALUE("base", 0, "FOLDER", TEXT, IN_FOLDER, quantize.adapters.base, Q | I,
          "IN is an adapter of FOLDER: write it as GGUF"),
    VALUE("target-model", 0, "FOLDER", TEXT, IN_FOLDER, quantize.adapters.target, Q | I | C | E | P | T | B,
          "of a draft: the model that it drafts for"),
    VALUE("remove-kv", 0, "REGEX", LIST, WORD, quantize.remove_kv, Q | P | B, "leave out matching metadata"),
    VALUE("allow-missing", 0, "REGEX", LIST, WORD, quantize.allow_missing, Q | P | B,
          "accept a model that lacks matching tensors"),
    FLAG("no-digests", 0, quantize.no_digests, Q | B | PROJECTOR,
         "leave out gquant.digests, which --reuse needs"),
    VALUE("mmproj", 0, "[=TYPE]", MMPROJ, MMPROJ, mmproj, Q | B | PROJECTOR,
          "also write the multimodal projector (F16)"),
    HEADING("Output:"),
    VALUE("output", 'o', "FILE", TEXT, OUT_FILE, output, Q | M, "in place of the argument OUT"),
    VALUE("outfile", 0, "FILE", TEXT, OUT_FILE, output, Q | M, NULL),
    VALUE("output-file", 0, "FILE", TEXT, OUT_FILE, output, Q | M, NULL),
    VALUE("type", 0, "TYPE", TEXT, WORD, type, Q, "in place of the argument TYPE"),
    VALUE("outtype", 0, "TYPE", TEXT, WORD, type, Q, NULL),
    VALUE("out-dir", 0, "DIR", TEXT, OUT_FOLDER, out_dir, Q | B | PROJECTOR | COMMON,
          "one file per TYPE (or NAME=TYPE), one read"),
    VALUE("calibration", 0, "OUT", TEXT, OUT_FILE, calibration_text, X, "a text for imatrix and --calibrate"),
    VALUE("held-out", 0, "OUT", TEXT, OUT_FILE, held_out_text, X, "a text of other documents for evaluate"),
    FLAG("force", 0, quantize.force, Q | M | E | B | X | NO_RESULT | PROJECTOR | COMMON,
         "replace an existing OUT"),
    FLAG("imatrix-path", 0, quantize.imatrix_path, Q, "store the path of --imatrix, not only its name"),
    FLAG("keep-split", 0, quantize.keep_split, Q, "write as many shards as IN has"),
    FLAG("read-once", 0, read_once, Q | E | M, "gquant-mpi: one rank reads the layers for all"),
    VALUE("split-max-size", 0, "SIZE", SIZE, WORD, quantize.split_max_size, Q | B,
          "write shards of at most SIZE (40G, 500M)"),
    VALUE("part", 0, "K/N", PART, WORD, quantize.part, Q | M | COMPUTE,
          "do only the K-th of N shares of the work"),
    FLAG("join", 0, quantize.join, Q, "finish a file whose parts are all done"),
    VALUE("name", 0, "TEMPLATE", TEXT, WORD, name, B, "names of files: {model}-{type}.gguf"),
    FLAG("ladder", 0, ladder, B, "a file for each common size of memory"),
    VALUE("base-model", 0, "ID", TEXT, WORD, base_model, B, "the card's base_model: OWNER/NAME"),
    VALUE("license", 0, "ID", TEXT, WORD, license, B, "the card's license, in place of the model's"),
    VALUE("title", 0, "TEXT", TEXT, WORD, title, B, "the card's title; default: the model's name"),
    VALUE("repo", 0, "OWNER/NAME", TEXT, WORD, repo, B, "where it is uploaded, for the card's commands"),
    VALUE("quantized-by", 0, "NAME", TEXT, WORD, quantized_by, B, "the card's quantized_by"),
    VALUE("speeds", 0, "FILE", TEXT, IN_FILE, speeds, B, "a column of speed from llama-bench -o json"),
    HEADING("Run:"),
    VALUE("threads", 't', "N", NUMBER, WORD, quantize.threads,
          Q | C | V | E | M | B | P | SAME_FILES | PROJECTOR | COMPUTE | COMMON,
          "number of threads; default: one per core"),
    FLAG("dry-run", 'n', dry_run, Q | M | E | B | NO_RESULT | PROJECTOR | COMPUTE | COMMON,
         "only print the plan (a target still measures)"),
    VALUE("report", 'r', "FILE", TEXT, OUT_TEXT, report, Q | C | E | ONE_RANK | NO_RESULT | COMMON,
          "report as .html, .md, .svg, .json or .csv"),
    VALUE("report", 'r', "FILE", TEXT, IN_FILE, report, V, "a .json or .csv report with the checksums"),
    VALUE("recipe-out", 0, "FILE", TEXT, OUT_TEXT, recipe_out, Q | ONE_RANK,
          "write OUT's types, for --tensor-type-file"),
    FLAG("quiet", 'q', quiet, ALL | NO_RESULT | PROJECTOR, "print errors only"),
    FLAG("verbose", 'v', verbose, Q | ONE_RANK | NO_RESULT | PROJECTOR,
         "a line per tensor; details with --version"),
    VALUE("progress", 0, "json[:FD]", PROGRESS, WORD, progress,
          Q | C | V | E | M | B | ONE_RANK | NO_RESULT | PROJECTOR | COMPUTE,
          "progress as JSON lines on standard error or FD"),
    VALUE("log-file", 0, "FILE", TEXT, OUT_TEXT, log_file,
          Q | C | V | E | M | B | P | ONE_RANK | NO_RESULT | PROJECTOR | COMPUTE,
          "append events and warnings to FILE (JSONL)"),
    FLAG("json", 0, json, Q | I | M | P | C | V | E | T | X | CMD_TYPES | ONE_RANK | NO_RESULT, "print JSON"),
    FLAG("full-paths", 0, full_paths, Q | C | E | B | NO_RESULT | PROJECTOR,
         "whole paths in reports, not only file names"),
    VALUE("ram", 0, "SIZE", SIZE, WORD, ram, P, "memory to plan for (16G); default: all here"),
    VALUE("reserve", 0, "SIZE", SIZE_OR_0, WORD, reserve, P, "of --ram, for the system; default: an eighth"),
    VALUE("evaluate", 0, "TEXT", TEXT, IN_FILE, text, Q | B | COMMON | FORWARD,
          "then run IN and OUT on TEXT, as evaluate does"),
    FLAG("speed", 0, speed, E, "measure the tokens/s that the types allow here"),
    VALUE("text", 0, "TEXT", TEXT, IN_FILE, text, E | P | FORWARD, "the file to run on; '-': standard input"),
    VALUE("ids", 0, "FILE", TEXT, IN_FILE, ids, E | M | P | COMPUTE | FORWARD,
          "token ids, or chats with weights (gquant-chat)"),
    VALUE("kind", 0, "FILE", LIST, IN_FILE, kinds, E, "another text or chats, reported by itself"),
    VALUE("prompts", 0, "N", COUNT, WORD, prompts, E, "continue N prompts by 32 tokens, compare"),
    VALUE("draft", 0, "DRAFT", TEXT, IN_FILE, draft, E | B, "how much of DRAFT's tokens each model accepts"),
    VALUE("draft-type", 0, "TYPE", TEXT, TENSOR_TYPE, draft_type, B, "type that the draft is made in (Q8_0)"),
    VALUE("mtp-file", 0, "TYPE", TEXT, TENSOR_TYPE, mtp_file, B, "MTP layers in a file of their own"),
    VALUE("choices", 0, "FILE", TEXT, IN_FILE, choices, E, "multiple-choice questions (JSONL)"),
    VALUE("chats", 0, "FILE", TEXT, IN_FILE, text, B, "evaluate on chats that gquant-chat rendered"),
    VALUE("context", 0, "TOKENS", COUNT, WORD, context, Q | P | E | M | B | COMPUTE,
          "window in tokens (512); plan: context (8192)"),
    VALUE("tokens", 0, "N", COUNT, WORD, tokens, E | M | B | T | COMPUTE, "use only the first N tokens"),
    VALUE("scores-file", 0, "FILE", KEPT, KEPT_FILE, scores_file, E | B | SAME_FILES,
          "keep scores here for the next time, or 'none'"),
    VALUE("stride", 0, "N", COUNT, WORD, stride, E, "a window every N tokens; its last N are scored"),
    VALUE("memory", 0, "SIZE", SIZE, WORD, memory, Q | E | M | B | T | SAME_FILES | COMPUTE,
          "memory limit; default: a quarter of all"),
    FLAG("process-output", 0, process_output, M | COMPUTE, "also compute it for the output matrix"),
    VALUE("logits", 0, "FILE", TEXT, OUT_FILE, logits, E | NO_RESULT,
          "write the logits of BASE as 32-bit floats"),
    VALUE("base", 0, "FILE", TEXT, IN_FILE, base, E, "llama.cpp's KLD base, for BASE and TEXT"),
    VALUE("base-out", 0, "FILE", TEXT, OUT_FILE, base_out, E, "write such a file of BASE"),
    FLAG("count", 0, count, T, "print only the number of tokens"),
    FLAG("no-bos", 0, no_bos, T, "add no tokens where a text begins and ends"),
    FLAG("parse-special", 0, parse_special, T | E | M | COMPUTE,
         "read <|im_end|> and the like as control tokens"),
    FLAG("help", 'h', help, ALL, "this text; 'gquant types' lists the file types"),
    FLAG("version", 'V', version, ALL, "version and instruction set"),
};
const size_t n_options = sizeof options / sizeof *options;
