/* Produce as fast as the window allows (rate 0), or records due at a fixed rate, whatever the brokers do.
 *
 * One thread, one connection per leader, at most `in_flight` requests on each, as Kafka's producers do. A request
 * carries one batch of each partition that its broker leads, up to request_max_bytes. Batches are built once per record
 * count and sent again and again: offsets are the leader's, so equal bytes do no harm, and the client's own cost stays
 * far below a broker's. With a rate, a record's latency runs from when it was due, not from when there was room for it.
 */
#define _GNU_SOURCE
#include "cluster.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

enum { PARTS_MAX = 256, WINDOW_MAX = 64, TIMEOUT_MS = 30000 };
static const int64_t STALL_NS = 40000000000LL;
static const int64_t TICK_NS = 100000; /* records that come more often than this wait for one another */

typedef struct {
    int partition, count;
    int64_t first; /* number of the first record within its partition */
} part;

typedef struct {
    int64_t sent_ns;
    int32_t correlation_id;
    int part_count;
    part parts[PARTS_MAX];
} request;

typedef struct {
    int32_t broker_id;
    int socket;
    int *partitions, partition_count, turn;
    request window[WINDOW_MAX];
    int oldest, in_flight;
    int32_t correlation_id;
    buffer head, answer;
    struct iovec pieces[2 * PARTS_MAX + 1];
    int piece_count, piece_at; /* what is still to be written of the newest request */
} connection;

typedef struct {
    const options *want;
    cluster cluster;
    connection connections[BROKERS_MAX];
    int connection_count;
    int batch_records;
    buffer *batches; /* by record count */
    int64_t *sent;   /* per partition */
    int64_t due, taken, acked, requests, failed_records, batch_bytes_sent;
    int first_error;
    int64_t start_ns, last_ack_ns;
    samples latencies;
} producer;

static const buffer *batch_of(producer *self, int count)
{
    if (!self->batches[count].data)
        self->batches[count] = make_batch(count, self->want->record_bytes);
    return &self->batches[count];
}

/* When record `number` of a partition is due; with a rate, records go round the partitions. */
static int64_t due_ns(const producer *self, int partition, int64_t number)
{
    double index = (double)(number * self->cluster.partition_count + partition);
    return self->start_ns + (int64_t)(index / self->want->rate * 1e9);
}

/* How many records this partition may send now. */
static int64_t waiting(const producer *self, int partition)
{
    if (self->want->rate <= 0)
        return self->want->records - self->taken;
    int64_t count = self->cluster.partition_count;
    return (self->due - partition + count - 1) / count - self->sent[partition];
}

static int worth_sending(const producer *self, const connection *on, int64_t now)
{
    for (int i = 0; i < on->partition_count; i++) {
        int partition = on->partitions[i];
        int64_t left = waiting(self, partition);
        if (left <= 0)
            continue;
        if (self->want->rate <= 0 || self->want->linger_us == 0 || left >= self->batch_records ||
            now - due_ns(self, partition, self->sent[partition]) >= self->want->linger_us * 1000LL)
            return 1;
    }
    return 0;
}

/* Puts the next request together; 0 when there is nothing to send. */
static int compose(producer *self, connection *on, int64_t now)
{
    if (!worth_sending(self, on, now))
        return 0;
    request *next = &on->window[(on->oldest + on->in_flight) % WINDOW_MAX];
    next->part_count = 0;
    int64_t bytes = 0;
    for (int i = 0; i < on->partition_count && next->part_count < PARTS_MAX; i++) {
        int partition = on->partitions[(on->turn + i) % on->partition_count];
        int64_t left = waiting(self, partition);
        if (left <= 0)
            continue;
        int count = left < self->batch_records ? (int)left : self->batch_records;
        int64_t size = (int64_t)batch_of(self, count)->size;
        if (next->part_count > 0 && bytes + size > self->want->request_max_bytes)
            break;
        next->parts[next->part_count++] = (part){partition, count, self->sent[partition]};
        self->sent[partition] += count;
        self->taken += count;
        bytes += size;
    }
    if (next->part_count == 0)
        return 0;
    on->turn = (on->turn + next->part_count) % on->partition_count;
    self->batch_bytes_sent += bytes;

    buffer *head = &on->head;
    size_t starts[PARTS_MAX + 1];
    begin_request(head, API_PRODUCE, PRODUCE_VERSION, ++on->correlation_id);
    put_i16(head, -1); /* no transactional id */
    put_i16(head, (int16_t)self->want->acks);
    put_i32(head, TIMEOUT_MS);
    put_i32(head, 1);
    put_string(head, self->want->topic);
    put_i32(head, next->part_count);
    for (int i = 0; i < next->part_count; i++) {
        starts[i] = head->size;
        put_i32(head, next->parts[i].partition);
        put_i32(head, (int32_t)batch_of(self, next->parts[i].count)->size);
    }
    starts[next->part_count] = head->size;
    patch_i32(head, 0, (int32_t)(head->size - 4 + (size_t)bytes));

    on->piece_count = on->piece_at = 0;
    size_t from = 0;
    for (int i = 0; i < next->part_count; i++) {
        const buffer *batch = batch_of(self, next->parts[i].count);
        on->pieces[on->piece_count++] = (struct iovec){head->data + from, starts[i + 1] - from};
        on->pieces[on->piece_count++] = (struct iovec){batch->data, batch->size};
        from = starts[i + 1];
    }
    next->sent_ns = now;
    next->correlation_id = on->correlation_id;
    on->in_flight++;
    self->requests++;
    return 1;
}

/* Writes what the socket takes; 1 when the request is out. */
static int write_pieces(connection *on)
{
    while (on->piece_at < on->piece_count) {
        struct msghdr message = {.msg_iov = on->pieces + on->piece_at,
                                 .msg_iovlen = (size_t)(on->piece_count - on->piece_at)};
        ssize_t sent = sendmsg(on->socket, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (sent < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
            return 0;
        if (sent < 0)
            die("broker %d: %s", on->broker_id, strerror(errno));
        while (sent > 0) {
            struct iovec *piece = &on->pieces[on->piece_at];
            size_t step = (size_t)sent < piece->iov_len ? (size_t)sent : piece->iov_len;
            piece->iov_base = (uint8_t *)piece->iov_base + step;
            piece->iov_len -= step;
            sent -= (ssize_t)step;
            if (piece->iov_len == 0)
                on->piece_at++;
        }
    }
    return 1;
}

static void note_latencies(producer *self, const part *of, int64_t now)
{
    int64_t counted_from = self->start_ns + self->want->skip_ms * 1000000LL;
    if (self->want->rate <= 0)
        return;
    for (int i = 0; i < of->count; i++) {
        int64_t due = due_ns(self, of->partition, of->first + i);
        if (due >= counted_from)
            add_sample(&self->latencies, now - due);
    }
}

static void take_answer(producer *self, connection *on, const uint8_t *data, size_t size, int64_t now)
{
    reader in = {data, data + size, "Produce answer"};
    char topic[256];
    const request *done = &on->window[on->oldest];
    int32_t correlation_id = get_i32(&in);
    if (on->in_flight == 0 || correlation_id != done->correlation_id)
        die("broker %d: answer to request %d, out of order", on->broker_id, correlation_id);
    for (int32_t topics = get_i32(&in); topics > 0; topics--) {
        get_string(&in, topic, sizeof topic);
        for (int32_t left = get_i32(&in); left > 0; left--) {
            int32_t partition = get_i32(&in);
            int16_t error = get_i16(&in);
            get_i64(&in);
            get_i64(&in);
            get_i64(&in);
            const part *of = NULL;
            for (int i = 0; i < done->part_count && !of; i++)
                if (done->parts[i].partition == partition)
                    of = &done->parts[i];
            if (!of)
                die("broker %d: answer about partition %d, which was not asked for", on->broker_id, partition);
            if (error) {
                self->failed_records += of->count;
                if (!self->first_error)
                    self->first_error = error;
            } else {
                self->acked += of->count;
                note_latencies(self, of, now);
            }
        }
    }
    if (self->want->rate <= 0 && now - self->start_ns >= self->want->skip_ms * 1000000LL)
        add_sample(&self->latencies, now - done->sent_ns);
    on->oldest = (on->oldest + 1) % WINDOW_MAX;
    on->in_flight--;
    self->last_ack_ns = now;
}

static void read_answers(producer *self, connection *on)
{
    uint8_t chunk[65536];
    ssize_t got = recv(on->socket, chunk, sizeof chunk, MSG_DONTWAIT);
    if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
        return;
    if (got <= 0)
        die("broker %d: %s", on->broker_id, got == 0 ? "closed the connection" : strerror(errno));
    int64_t now = now_ns();
    put_raw(&on->answer, chunk, (size_t)got);
    size_t at = 0;
    while (on->answer.size - at >= 4) {
        const uint8_t *frame = on->answer.data + at;
        size_t size = (size_t)frame[0] << 24 | (size_t)frame[1] << 16 | (size_t)frame[2] << 8 | frame[3];
        if (on->answer.size - at - 4 < size)
            break;
        take_answer(self, on, frame + 4, size, now);
        at += 4 + size;
    }
    memmove(on->answer.data, on->answer.data + at, on->answer.size - at);
    on->answer.size -= at;
}

static void fill(producer *self, connection *on, int64_t now)
{
    for (;;) {
        if (on->piece_at < on->piece_count && !write_pieces(on))
            return;
        if (on->in_flight >= self->want->in_flight || !compose(self, on, now))
            return;
    }
}

static void connect_leaders(producer *self)
{
    cluster *cluster = &self->cluster;
    for (int b = 0; b < cluster->broker_count; b++) {
        connection *on = &self->connections[self->connection_count];
        on->broker_id = cluster->brokers[b].id;
        on->partitions = calloc((size_t)cluster->partition_count, sizeof *on->partitions);
        on->partition_count = 0;
        for (int p = 0; p < cluster->partition_count; p++)
            if (cluster->leader[p] == on->broker_id)
                on->partitions[on->partition_count++] = p;
        if (on->partition_count == 0)
            continue;
        on->socket = dial(&cluster->brokers[b].at, 5000);
        if (on->socket < 0)
            die("broker %d: cannot connect", on->broker_id);
        fcntl(on->socket, F_SETFL, O_NONBLOCK);
        self->connection_count++;
    }
}

/* Makes due what is due by now; returns how long to wait for the next. */
static int64_t advance(producer *self, int64_t now)
{
    if (self->want->rate <= 0)
        return 1000000000;
    int64_t due = (int64_t)((double)(now - self->start_ns) * self->want->rate / 1e9) + 1;
    self->due = due < self->want->records ? due : self->want->records;
    if (self->due >= self->want->records)
        return self->want->linger_us > 0 ? TICK_NS : 1000000000;
    int64_t wait = self->start_ns + (int64_t)((double)self->due / self->want->rate * 1e9) - now;
    return wait > TICK_NS ? wait : TICK_NS;
}

static void report(producer *self)
{
    printf("{\"records\": %lld, \"failed_records\": %lld, \"first_error\": %d, \"requests\": %lld, "
           "\"bytes\": %lld, \"first_send_ns\": %lld, \"last_ack_ns\": %lld, \"cpu_s\": %.3f, ",
           (long long)self->acked, (long long)self->failed_records, self->first_error, (long long)self->requests,
           (long long)self->batch_bytes_sent, (long long)self->start_ns, (long long)self->last_ack_ns, cpu_seconds());
    print_samples(&self->latencies);
    printf("}\n");
}

int run_produce(const options *want)
{
    static producer state;
    producer *self = &state;
    self->want = want;
    self->batch_records = records_per_batch(want->record_bytes, want->batch_bytes);
    self->batches = calloc((size_t)self->batch_records + 1, sizeof *self->batches);
    await_cluster(want, &self->cluster);
    self->sent = calloc((size_t)self->cluster.partition_count, sizeof *self->sent);
    connect_leaders(self);
    batch_of(self, self->batch_records);
    prctl(PR_SET_TIMERSLACK, 1UL, 0, 0, 0);

    await_start(want);
    self->start_ns = want->start_ns ? want->start_ns : now_ns();
    self->last_ack_ns = now_ns();
    struct pollfd polled[BROKERS_MAX];
    while (self->acked + self->failed_records < want->records) {
        int64_t now = now_ns();
        int64_t wait = advance(self, now);
        for (int i = 0; i < self->connection_count; i++) {
            connection *on = &self->connections[i];
            fill(self, on, now);
            polled[i] = (struct pollfd){on->socket, POLLIN, 0};
            if (on->piece_at < on->piece_count)
                polled[i].events |= POLLOUT;
        }
        struct timespec limit = {wait / 1000000000, wait % 1000000000};
        if (ppoll(polled, (nfds_t)self->connection_count, &limit, NULL) < 0 && errno != EINTR)
            die("ppoll: %s", strerror(errno));
        for (int i = 0; i < self->connection_count; i++)
            if (polled[i].revents & ~POLLOUT)
                read_answers(self, &self->connections[i]);
        if (now_ns() - self->last_ack_ns > STALL_NS)
            die("no answer for %lld s", (long long)(STALL_NS / 1000000000));
    }
    report(self);
    return 0;
}
