/* A client that retries: one acks=all record in flight on partition 0, for ever; after any failure it asks who leads
 * and sends again. Prints a line per success, "sent_ns acked_ns offset broker", and per failure, "sent_ns failed_ns
 * error -". Ends after `seconds`.
 */
#include "cluster.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { ATTEMPT_MS = 2000, PAUSE_US = 5000, BROKEN = -1000 };

typedef struct {
    int16_t error;
    int64_t offset;
} answer;

static answer parse(const buffer *frame)
{
    reader in = {frame->data, frame->data + frame->size, "Produce answer"};
    char topic[256];
    get_i32(&in);
    get_i32(&in);
    get_string(&in, topic, sizeof topic);
    get_i32(&in);
    get_i32(&in);
    int16_t error = get_i16(&in);
    return (answer){error, get_i64(&in)};
}

int run_probe(const options *want)
{
    static cluster cluster;
    buffer batch = make_batch(1, want->record_bytes), request = {0}, frame = {0};
    begin_request(&request, API_PRODUCE, PRODUCE_VERSION, 1);
    put_i16(&request, -1);
    put_i16(&request, -1);
    put_i32(&request, ATTEMPT_MS);
    put_i32(&request, 1);
    put_string(&request, want->topic);
    put_i32(&request, 1);
    put_i32(&request, 0);
    put_i32(&request, (int32_t)batch.size);
    put_raw(&request, batch.data, batch.size);
    end_request(&request);

    await_cluster(want, &cluster);
    int64_t end = now_ns() + (int64_t)(want->seconds * 1e9);
    int socket = -1, ask_first = 0;
    while (now_ns() < end) {
        int64_t sent = now_ns();
        answer got = {BROKEN, -1};
        const broker *leader = find_broker(&cluster, cluster.leader[0]);
        if (socket < 0 && leader)
            socket = dial(&leader->at, ATTEMPT_MS);
        if (socket >= 0 && send_all(socket, request.data, request.size) == 0 && receive_frame(socket, &frame) == 0)
            got = parse(&frame);
        int64_t now = now_ns();
        if (got.error == 0 && leader) {
            printf("%lld %lld %lld %d\n", (long long)sent, (long long)now, (long long)got.offset, leader->id);
            fflush(stdout);
            continue;
        }
        printf("%lld %lld %d -\n", (long long)sent, (long long)now, got.error);
        fflush(stdout);
        if (socket >= 0)
            close(socket);
        socket = -1;
        usleep(PAUSE_US);
        refresh(want, &cluster, ask_first++);
    }
    return 0;
}
