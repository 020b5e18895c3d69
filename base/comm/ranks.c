/* Collectives on a transport. Each begins with comm_begin, which exchanges headers (ranks.h says why), and ends
 * with comm_end; between them bytes move, and nothing but the transport can fail there that would keep a rank
 * from doing its part. */
#include <stdlib.h>
#include <string.h>

#include "base/comm/ranks.h"
#include "base/fail.h"
#include "base/threads.h"

typedef enum comm_kind {
    COMM_AGREE = 1,
    COMM_MEET,
    COMM_BROADCAST,
    COMM_GATHER,
    COMM_EXCHANGE,
    COMM_COLLECT,
} comm_kind;

/* The header that ranks exchange first. Ranks may differ only in `failed`. */
typedef struct comm_header {
    uint32_t kind, failed;
    uint64_t number; /* of the collective */
    uint64_t bytes;  /* bytes that the collective moves, if all ranks know; else 0 */
} comm_header;
_Static_assert(sizeof(comm_header) == COMM_HEADER_BYTES, "what the documents say");

/* Parcels are sent in pieces of so many bytes: a receiver without memory for one takes it piece by piece. */
enum { COMM_PIECE = 256 << 10 };

struct gq_comm {
    gq_transport transport;
    comm_header *headers; /* one per rank */
    uint64_t *numbers;    /* likewise, for comm_most */
    uint8_t *piece;
    bool is_over;
    gq_error why;
    uint64_t collectives, sent;
    uint64_t fault; /* number of the collective that fails, and 1; 0: none */
    bool fault_after;
};

gq_comm *gq_comm_new(const gq_transport *transport, gq_error *e) {
    if (transport->size != sizeof *transport || transport->ranks < 1 || transport->rank < 0 ||
        transport->rank >= transport->ranks) {
        gq_fail_usage(e,
                      "the transport between ranks is invalid: %zu bytes, rank %d of %d; expected %zu bytes",
                      transport->size, transport->rank, transport->ranks, sizeof *transport);
        return NULL;
    }
    gq_comm *c = calloc(1, sizeof *c);
    if (!c) return gq_fail_memory(e, sizeof *c), NULL;
    size_t ranks = (size_t)transport->ranks;
    c->transport = *transport;
    c->headers = calloc(ranks, sizeof *c->headers);
    c->numbers = calloc(ranks, sizeof *c->numbers);
    c->piece = malloc(COMM_PIECE);
    if (c->headers && c->numbers && c->piece) return c;
    gq_comm_free(c);
    gq_fail_memory(e, COMM_PIECE + ranks * sizeof *c->headers);
    return NULL;
}

void gq_comm_free(gq_comm *c) {
    if (!c) return;
    free(c->headers), free(c->numbers), free(c->piece);
    free(c);
}

int gq_comm_rank(const gq_comm *c) { return c ? c->transport.rank : 0; }
int gq_comm_ranks(const gq_comm *c) { return c ? c->transport.ranks : 1; }
uint64_t gq_comm_bytes_sent(const gq_comm *c) { return c ? c->sent : 0; }

uint64_t comm_share(const gq_comm *c, uint64_t n, int rank) {
    uint64_t ranks = (uint64_t)gq_comm_ranks(c), r = (uint64_t)rank, more = n % ranks;
    return n / ranks * r + (r < more ? r : more);
}

uint64_t comm_share_rotated(const gq_comm *c, uint64_t n, uint64_t rotation, int rank) {
    uint64_t ranks = (uint64_t)gq_comm_ranks(c), r = (uint64_t)rank, more = n % ranks;
    return n / ranks * r + (more * r + rotation % ranks * more % ranks) / ranks;
}

int comm_machine_ranks(const gq_comm *c) {
    return c && c->transport.machine_ranks > 1 ? c->transport.machine_ranks : 1;
}

uint64_t comm_memory(const gq_comm *c, uint64_t machine_bytes) {
    return machine_bytes / (uint64_t)comm_machine_ranks(c);
}

int comm_threads(const gq_comm *c, int asked) {
    int n = threads_asked(asked);
    if (asked > 0 || !c || c->transport.processor_ranks < 2) return n;
    return n > c->transport.processor_ranks ? n / c->transport.processor_ranks : 1;
}

/* ---- headers ---- */

static bool comm_is_over(gq_comm *c, gq_error *e) {
    if (c->is_over && e) *e = c->why;
    return c->is_over;
}

/* Ends the comm on this rank. */
static bool comm_stop(gq_comm *c, const gq_error *why, gq_error *e) {
    c->is_over = true, c->why = *why;
    if (e) *e = *why;
    return false;
}

static bool comm_count(gq_comm *c, bool ok, uint64_t sent, const gq_error *why, gq_error *e) {
    c->sent += sent;
    return ok || comm_stop(c, why, e);
}

static bool transport_exchange(gq_comm *c, const void *mine, void *all, size_t n, gq_error *e) {
    gq_error why = {.status = GQ_FAILED};
    return comm_count(c, c->transport.exchange(c->transport.data, mine, all, n, &why), n, &why, e);
}

static bool transport_broadcast(gq_comm *c, int from, void *bytes, size_t n, gq_error *e) {
    gq_error why = {.status = GQ_FAILED};
    return comm_count(c, n == 0 || c->transport.broadcast(c->transport.data, from, bytes, n, &why),
                      from == c->transport.rank ? n : 0, &why, e);
}

static bool transport_send(gq_comm *c, int to, const void *bytes, size_t n, gq_error *e) {
    gq_error why = {.status = GQ_FAILED};
    return comm_count(c, c->transport.send(c->transport.data, to, bytes, n, &why), n, &why, e);
}

static bool transport_receive(gq_comm *c, int from, void *bytes, size_t n, gq_error *e) {
    gq_error why = {.status = GQ_FAILED};
    return comm_count(c, c->transport.receive(c->transport.data, from, bytes, n, &why), 0, &why, e);
}

static bool comm_fault(const gq_comm *c, bool after, gq_error *e) {
    return c->fault != c->collectives + 1 || c->fault_after != after ||
           gq_fail(e, "collective %llu was made to fail on rank %d", (unsigned long long)c->collectives,
                   c->transport.rank);
}

/* Exchanges headers. mine: this rank's error; NULL: it has not failed. */
static bool comm_exchange_headers(gq_comm *c, comm_header header, const gq_error *mine, gq_error *e) {
    gq_error why = {.status = GQ_FAILED};
    if (!transport_exchange(c, &header, c->headers, sizeof header, e)) return false;
    for (int r = 0; r < c->transport.ranks; r++) {
        if (!c->headers[r].failed) continue;
        if (mine) why = *mine;
        if (!transport_broadcast(c, r, &why, sizeof why, e)) return false;
        /* The name of a rank that failed says on which machine to look. */
        if (r > 0 && why.status != GQ_INTERRUPTED && strncmp(why.text, "rank ", 5) != 0)
            gq_fail_again(&why, &why, "rank %d: %s", r, why.text);
        return comm_stop(c, &why, e);
    }
    for (int r = 1; r < c->transport.ranks; r++)
        if (memcmp(&c->headers[r], &c->headers[0], sizeof header) != 0) {
            gq_fail(&why, "ranks 0 and %d do different things: their options, files or builds differ", r);
            return comm_stop(c, &why, e);
        }
    return true;
}

static bool comm_begin(gq_comm *c, comm_kind kind, uint64_t bytes, gq_error *e) {
    if (comm_is_over(c, e) || !comm_fault(c, false, e)) return false;
    return comm_exchange_headers(c, (comm_header){.kind = kind, .number = c->collectives, .bytes = bytes},
                                 NULL, e);
}

static bool comm_end(gq_comm *c, gq_error *e) {
    bool ok = comm_fault(c, true, e);
    c->collectives++;
    return ok;
}

/* ---- collectives ---- */

bool gq_comm_agree(gq_comm *c, bool ok, gq_error *e) {
    gq_error mine = {.status = GQ_FAILED};
    if (!c) return ok;
    if (c->is_over) return ok ? !comm_is_over(c, e) : false;
    ok = ok && comm_fault(c, false, e);
    if (!ok && e) mine = *e;
    comm_header header = {.kind = COMM_AGREE, .failed = !ok, .number = ok ? c->collectives : 0};
    return comm_exchange_headers(c, header, ok ? NULL : &mine, e) && comm_end(c, e);
}

bool comm_meet(gq_comm *c, gq_error *e) { return !c || (comm_begin(c, COMM_MEET, 0, e) && comm_end(c, e)); }

bool comm_broadcast_from(gq_comm *c, int from, void *bytes, size_t n, gq_error *e) {
    return !c || (comm_begin(c, COMM_BROADCAST, n, e) && transport_broadcast(c, from, bytes, n, e) &&
                  comm_end(c, e));
}

bool comm_broadcast(gq_comm *c, void *bytes, size_t n, gq_error *e) {
    return comm_broadcast_from(c, 0, bytes, n, e);
}

bool comm_broadcast_pieces(gq_comm *c, int from, const comm_pieces *p, gq_error *e) {
    uint64_t bytes = 0;
    bool ok = true;
    for (size_t i = 0; i < p->n; i++) bytes += p->bytes(p->data, i);
    if (!comm_begin(c, COMM_BROADCAST, bytes, e)) return false;
    for (size_t i = 0; i < p->n; i++) {
        if (!transport_broadcast(c, from, p->at(p->data, i), p->bytes(p->data, i), e)) return false;
        ok = ok && p->use(p->data, i, e);
    }
    return ok && comm_end(c, e);
}

bool comm_gather(gq_comm *c, void *array, const uint64_t *begins, gq_error *e) {
    if (!c) return true;
    if (!comm_begin(c, COMM_GATHER, begins[c->transport.ranks], e)) return false;
    for (int r = 0; r < c->transport.ranks; r++)
        if (!transport_broadcast(c, r, (uint8_t *)array + begins[r], begins[r + 1] - begins[r], e))
            return false;
    return comm_end(c, e);
}

bool comm_exchange(gq_comm *c, const uint64_t *mine, uint64_t *all, size_t n, gq_error *e) {
    if (!c) return memcpy(all, mine, n * sizeof *all), true;
    return comm_begin(c, COMM_EXCHANGE, n * sizeof *mine, e) &&
           transport_exchange(c, mine, all, n * sizeof *mine, e) && comm_end(c, e);
}

bool comm_least(gq_comm *c, uint64_t *value, gq_error *e) {
    uint64_t complement = UINT64_MAX - *value;
    bool ok = comm_most(c, &complement, 1, e);
    *value = UINT64_MAX - complement;
    return ok;
}

bool comm_most(gq_comm *c, uint64_t *values, size_t n, gq_error *e) {
    for (size_t i = 0; c && i < n; i++) {
        if (!comm_exchange(c, &values[i], c->numbers, 1, e)) return false;
        for (int r = 0; r < c->transport.ranks; r++)
            if (c->numbers[r] > values[i]) values[i] = c->numbers[r];
    }
    return true;
}

/* ---- parcels ---- */

static bool parcel_send(gq_comm *c, int to, const uint8_t *bytes, uint64_t n, gq_error *e) {
    if (!transport_send(c, to, &n, sizeof n, e)) return false;
    for (uint64_t at = 0, some; at < n; at += some) {
        some = n - at < COMM_PIECE ? n - at : COMM_PIECE;
        if (!transport_send(c, to, bytes + at, some, e)) return false;
    }
    return true;
}

/* Receives a parcel. *bytes: malloc'ed; NULL: there is no memory for it, and it is gone. */
static bool parcel_receive(gq_comm *c, int from, uint8_t **bytes, uint64_t *n, gq_error *e) {
    *bytes = NULL;
    if (!transport_receive(c, from, n, sizeof *n, e)) return false;
    *bytes = malloc(*n ? *n : 1);
    for (uint64_t at = 0, some; at < *n; at += some) {
        some = *n - at < COMM_PIECE ? *n - at : COMM_PIECE;
        if (transport_receive(c, from, *bytes ? *bytes + at : c->piece, some, e)) continue;
        free(*bytes);
        return *bytes = NULL, false;
    }
    return true;
}

/* Takes the parcel of a rank. *ok: what has not failed here so far. Returns whether the transport works. */
static bool parcel_take(gq_comm *c, int from, const comm_parcel *p, bool *ok, gq_error *e) {
    uint8_t *bytes;
    uint64_t n;
    if (!parcel_receive(c, from, &bytes, &n, e)) return false;
    *ok = *ok && (bytes || gq_fail_memory(e, n)) && p->add(p->data, bytes, n, e);
    free(bytes);
    return true;
}

/* Hands this rank's parcel on; where it has failed, an empty one. */
static bool parcel_give(gq_comm *c, int to, const comm_parcel *p, bool *ok, gq_error *e) {
    uint8_t *bytes = NULL;
    uint64_t n = 0;
    *ok = *ok && p->pack(p->data, &bytes, &n, e);
    bool works = parcel_send(c, to, bytes, *ok ? n : 0, e);
    free(bytes);
    return works;
}

bool comm_collect(gq_comm *c, const comm_parcel *p, gq_error *e) {
    if (!c) return true;
    bool ok = true, works = comm_begin(c, COMM_COLLECT, 0, e);
    int rank = c->transport.rank, ranks = c->transport.ranks;
    for (int step = 1; works && step < ranks; step *= 2) {
        if (rank % (2 * step)) {
            works = parcel_give(c, rank - step, p, &ok, e);
            break;
        }
        if (rank + step < ranks) works = parcel_take(c, rank + step, p, &ok, e);
    }
    /* Nobody uses what rank 0 has before it is known that no rank has failed to pack or add. */
    return works && ok && comm_end(c, e) && comm_meet(c, e);
}

/* ---- for tests ---- */

void comm_fail_at(gq_comm *c, uint64_t number, bool after) { c->fault = number + 1, c->fault_after = after; }
uint64_t comm_collectives(const gq_comm *c) { return c->collectives; }
