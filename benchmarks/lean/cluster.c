#define _GNU_SOURCE
#include "cluster.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

int dial(const address *where, int timeout_ms)
{
    char port[16];
    snprintf(port, sizeof port, "%d", where->port);
    struct addrinfo hints = {.ai_family = AF_INET, .ai_socktype = SOCK_STREAM}, *found;
    if (getaddrinfo(where->host, port, &hints, &found) != 0)
        return -1;
    int made = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct timeval limit = {timeout_ms / 1000, timeout_ms % 1000 * 1000};
    setsockopt(made, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
    setsockopt(made, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    int one = 1;
    setsockopt(made, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    int failed = connect(made, found->ai_addr, found->ai_addrlen);
    freeaddrinfo(found);
    if (failed) {
        close(made);
        return -1;
    }
    return made;
}

int send_all(int socket, const void *data, size_t size)
{
    const uint8_t *at = data;
    while (size > 0) {
        ssize_t sent = send(socket, at, size, MSG_NOSIGNAL);
        if (sent <= 0)
            return -1;
        at += sent;
        size -= (size_t)sent;
    }
    return 0;
}

int receive_all(int socket, void *data, size_t size)
{
    uint8_t *at = data;
    while (size > 0) {
        ssize_t got = recv(socket, at, size, 0);
        if (got <= 0)
            return -1;
        at += got;
        size -= (size_t)got;
    }
    return 0;
}

int receive_frame(int socket, buffer *frame)
{
    uint8_t raw[4];
    if (receive_all(socket, raw, sizeof raw) < 0)
        return -1;
    size_t size = (size_t)raw[0] << 24 | (size_t)raw[1] << 16 | (size_t)raw[2] << 8 | raw[3];
    if (size > frame->capacity) {
        frame->data = realloc(frame->data, size);
        if (!frame->data)
            die("no memory for an answer of %zu bytes", size);
        frame->capacity = size;
    }
    frame->size = size;
    return receive_all(socket, frame->data, size);
}

static void parse_metadata(reader in, const options *options, cluster *cluster)
{
    char text[256];
    get_i32(&in); /* correlation id */
    cluster->broker_count = 0;
    for (int32_t left = get_i32(&in); left > 0; left--) {
        broker one = {.id = get_i32(&in)};
        get_string(&in, one.at.host, sizeof one.at.host);
        one.at.port = get_i32(&in);
        get_string(&in, text, sizeof text); /* rack */
        if (cluster->broker_count < BROKERS_MAX)
            cluster->brokers[cluster->broker_count++] = one;
    }
    get_i32(&in); /* controller */
    cluster->partition_count = 0;
    for (int32_t topics = get_i32(&in); topics > 0; topics--) {
        get_i16(&in);
        get_string(&in, text, sizeof text);
        get_i8(&in);
        for (int32_t left = get_i32(&in); left > 0; left--) {
            get_i16(&in);
            int32_t partition = get_i32(&in), leader = get_i32(&in);
            for (int lists = 0; lists < 2; lists++)
                for (int32_t ids = get_i32(&in); ids > 0; ids--)
                    get_i32(&in);
            if (strcmp(text, options->topic) != 0)
                continue;
            if (partition < 0 || partition >= PARTITIONS_MAX)
                die("partition %d: at most %d are supported", partition, PARTITIONS_MAX);
            cluster->leader[partition] = leader;
            if (partition >= cluster->partition_count)
                cluster->partition_count = partition + 1;
        }
    }
}

static int ask(const options *options, cluster *cluster, const address *where)
{
    int socket = dial(where, 2000);
    if (socket < 0)
        return -1;
    buffer request = {0}, frame = {0};
    begin_request(&request, API_METADATA, METADATA_VERSION, 1);
    put_i32(&request, 1);
    put_string(&request, options->topic);
    end_request(&request);
    int failed = send_all(socket, request.data, request.size) < 0 || receive_frame(socket, &frame) < 0;
    if (!failed) {
        for (int i = 0; i < PARTITIONS_MAX; i++)
            cluster->leader[i] = -1;
        parse_metadata((reader){frame.data, frame.data + frame.size, "Metadata"}, options, cluster);
    }
    free(request.data);
    free(frame.data);
    close(socket);
    return failed ? -1 : 0;
}

static int complete(const cluster *cluster)
{
    for (int i = 0; i < cluster->partition_count; i++)
        if (!find_broker(cluster, cluster->leader[i]))
            return 0;
    return cluster->partition_count > 0;
}

int refresh(const options *options, cluster *cluster, int first)
{
    for (int i = 0; i < options->bootstrap_count; i++) {
        int at = (first + i) % options->bootstrap_count;
        if (ask(options, cluster, &options->bootstrap[at]) == 0 && complete(cluster))
            return 0;
    }
    return -1;
}

void await_cluster(const options *options, cluster *cluster)
{
    for (int64_t end = now_ns() + 30000000000LL; refresh(options, cluster, 0) < 0; usleep(50000))
        if (now_ns() > end)
            die("topic %s: not every partition has a leader after 30 s", options->topic);
}

const broker *find_broker(const cluster *cluster, int32_t id)
{
    for (int i = 0; i < cluster->broker_count; i++)
        if (cluster->brokers[i].id == id)
            return &cluster->brokers[i];
    return NULL;
}

void add_sample(samples *to, int64_t value_ns)
{
    if (to->count == to->capacity) {
        to->capacity = to->capacity ? to->capacity * 2 : 4096;
        to->values = realloc(to->values, to->capacity * sizeof *to->values);
        if (!to->values)
            die("no memory for %zu samples", to->capacity);
    }
    to->values[to->count++] = value_ns;
}

static int ascending(const void *left, const void *right)
{
    int64_t a = *(const int64_t *)left, b = *(const int64_t *)right;
    return (a > b) - (a < b);
}

static double quantile_us(const samples *of, double q)
{
    if (of->count == 0)
        return -1;
    size_t rank = (size_t)(q * (double)of->count);
    return (double)of->values[rank < of->count ? rank : of->count - 1] / 1000.0;
}

void print_samples(samples *of)
{
    qsort(of->values, of->count, sizeof *of->values, ascending);
    printf("\"latency_us\": {\"count\": %zu, \"p50\": %.1f, \"p99\": %.1f, \"p999\": %.1f, \"max\": %.1f}", of->count,
           quantile_us(of, 0.5), quantile_us(of, 0.99), quantile_us(of, 0.999), quantile_us(of, 1.0));
}

void await_start(const options *options)
{
    if (!options->start_ns)
        return;
    int64_t left = options->start_ns - now_ns();
    if (left < 0)
        die("--start-ns was %lld ms ago", (long long)(-left / 1000000));
    struct timespec until = {options->start_ns / 1000000000, options->start_ns % 1000000000};
    clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL);
}

double cpu_seconds(void)
{
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return (double)usage.ru_utime.tv_sec + (double)usage.ru_stime.tv_sec +
           (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e6;
}
