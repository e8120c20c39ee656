/* Which broker leads which partition of one topic, and blocking connections to brokers. */
#ifndef LEAN_CLUSTER_H
#define LEAN_CLUSTER_H

#include <stddef.h>
#include <stdint.h>

#include "wire.h"

enum { BROKERS_MAX = 16, PARTITIONS_MAX = 16384 };

typedef struct {
    char host[128];
    int port;
} address;

typedef struct {
    int32_t id;
    address at;
} broker;

typedef struct {
    broker brokers[BROKERS_MAX];
    int broker_count;
    int partition_count;
    int32_t leader[PARTITIONS_MAX]; /* broker id, -1 for none */
} cluster;

/* What the command line says. */
typedef struct {
    const char *command, *topic;
    address bootstrap[BROKERS_MAX];
    int bootstrap_count;
    int acks, record_bytes, batch_bytes, in_flight, linger_us, skip_ms, request_max_bytes;
    int64_t records;
    int64_t start_ns; /* CLOCK_MONOTONIC when the first record is due; 0 for now */
    double rate, due_rate, seconds;
    int min_bytes;
} options;

/* A connected TCP socket without Nagle's delay; -1 when refused or not answered in time. */
int dial(const address *where, int timeout_ms);
/* All of the bytes, or -1. */
int send_all(int socket, const void *data, size_t size);
int receive_all(int socket, void *data, size_t size);
/* One answer into `frame` (without its length); -1 when the connection broke or timed out. */
int receive_frame(int socket, buffer *frame);

/* Asks the bootstrap brokers in turn, from `first` on; 0 when one answered that every partition has a leader. */
int refresh(const options *options, cluster *cluster, int first);
/* The same until it succeeds; ends the process after 30 s. */
void await_cluster(const options *options, cluster *cluster);
const broker *find_broker(const cluster *cluster, int32_t id);

/* Latencies in ns; reported as percentiles in µs. */
typedef struct {
    int64_t *values;
    size_t count, capacity;
} samples;

void add_sample(samples *to, int64_t value_ns);
/* "latency_us": {…} without a comma after it; sorts. */
void print_samples(samples *of);
double cpu_seconds(void);
/* Sleeps until start_ns; ends the process when that is over already. */
void await_start(const options *options);

int run_produce(const options *options);
int run_consume(const options *options);
int run_probe(const options *options);

#endif
