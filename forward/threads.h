/* Threads for the loops of this room, which OpenMP runs. Its libraries end the process when a thread cannot
 * be started, so the number is tried first; every OpenMP loop here says num_threads, with what this returned.
 */
#ifndef GQ_FORWARD_THREADS_H
#define GQ_FORWARD_THREADS_H

/* So many threads, at most `wanted` (at least 1), can run at once here. Asked once, before the work. */
int forward_threads(int wanted);

/* Do the work in a thread of its own, or in the caller's where none starts. OpenMP keeps the threads that
 * have helped a thread for as long as that lives; a child that it forks does not have them, and would wait
 * for them for ever. Those of a thread that ends are gone with it. */
void forward_apart(void (*work)(void *data), void *data);

#endif
