#include "tests/support/ranks.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

/* Rendezvous of a transport's calls: a rank publishes its bytes, all arrive, each copies, all leave. */
typedef struct board {
    pthread_barrier_t barrier;
    int n;
    const void *shown[RANKS_MOST];
    pthread_mutex_t lock;
    pthread_cond_t changed;
    const void *sent[RANKS_MOST][RANKS_MOST]; /* [from][to]; NULL: nothing, or already received */
} board;

typedef struct rank {
    board *board;
    int number;
    rank_work *work;
    void *data;
    bool is_faulty, after;
    uint64_t fault, collectives;
} rank;

static bool board_exchange(void *data, const void *mine, void *all, size_t n, gq_error *e) {
    rank *r = data;
    board *b = r->board;
    (void)e;
    b->shown[r->number] = mine;
    pthread_barrier_wait(&b->barrier);
    for (int i = 0; i < b->n; i++) memcpy((char *)all + (size_t)i * n, b->shown[i], n);
    pthread_barrier_wait(&b->barrier);
    return true;
}

static bool board_broadcast(void *data, int from, void *bytes, size_t n, gq_error *e) {
    rank *r = data;
    board *b = r->board;
    (void)e;
    if (r->number == from) b->shown[from] = bytes;
    pthread_barrier_wait(&b->barrier);
    if (r->number != from) memcpy(bytes, b->shown[from], n);
    pthread_barrier_wait(&b->barrier);
    return true;
}

static bool board_send(void *data, int to, const void *bytes, size_t n, gq_error *e) {
    rank *r = data;
    board *b = r->board;
    (void)n, (void)e;
    pthread_mutex_lock(&b->lock);
    b->sent[r->number][to] = bytes;
    pthread_cond_broadcast(&b->changed);
    while (b->sent[r->number][to]) pthread_cond_wait(&b->changed, &b->lock);
    pthread_mutex_unlock(&b->lock);
    return true;
}

static bool board_receive(void *data, int from, void *bytes, size_t n, gq_error *e) {
    rank *r = data;
    board *b = r->board;
    (void)e;
    pthread_mutex_lock(&b->lock);
    while (!b->sent[from][r->number]) pthread_cond_wait(&b->changed, &b->lock);
    memcpy(bytes, b->sent[from][r->number], n);
    b->sent[from][r->number] = NULL;
    pthread_cond_broadcast(&b->changed);
    pthread_mutex_unlock(&b->lock);
    return true;
}

static void *enter_rank(void *arg) {
    rank *r = arg;
    const gq_transport t = {.size = sizeof t,
                            .rank = r->number,
                            .ranks = r->board->n,
                            .machine_ranks = 1,
                            .processor_ranks = 1,
                            .exchange = board_exchange,
                            .broadcast = board_broadcast,
                            .send = board_send,
                            .receive = board_receive,
                            .data = r};
    gq_comm *comm = gq_comm_new(&t, NULL);
    if (!comm) abort();
    if (r->is_faulty) comm_fail_at(comm, r->fault, r->after);
    r->work(r->data, comm);
    r->collectives = comm_collectives(comm);
    gq_comm_free(comm);
    return NULL;
}

uint64_t ranks_run(int n, rank_work *work, void *data, int faulty, uint64_t number, bool after) {
    board b = {.n = n, .lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};
    rank ranks[RANKS_MOST];
    pthread_t threads[RANKS_MOST];
    pthread_barrier_init(&b.barrier, NULL, (unsigned)n);
    for (int i = 0; i < n; i++) {
        ranks[i] = (rank){&b, i, work, data, i == faulty || faulty == RANKS_EACH, after, number, 0};
        if (i > 0 && pthread_create(&threads[i], NULL, enter_rank, &ranks[i])) abort();
    }
    enter_rank(&ranks[0]);
    for (int i = 1; i < n; i++) pthread_join(threads[i], NULL);
    pthread_barrier_destroy(&b.barrier);
    return ranks[0].collectives;
}
