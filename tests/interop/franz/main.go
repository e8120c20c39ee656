// One franz-go client: `franz BOOTSTRAP TRANSACTIONAL_ID`. Each line on stdin is answered by one line:
// `open`, `transact` and `transform` as by TransactionalClient.java;
// `produce TOPIC VALUE...`: the values in turn to partitions 0 to 2, answered by "done";
// `consume TOPIC GROUP COUNT`: so many values that the group has not read yet, committed;
// `follow TOPIC GROUP`: for ever, each value on a line of its own, committed poll by poll.
package main

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

const (
	wait       = 60 * time.Second
	partitions = 3
)

type franz struct {
	bootstrap, id string
	// Of the transactional producer; nil before the first transaction.
	client *kgo.Client
}

func main() {
	f := &franz{bootstrap: os.Args[1], id: os.Args[2]}
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		words := strings.Fields(lines.Text())
		ctx, cancel := context.WithTimeout(context.Background(), wait)
		answer, err := f.answer(ctx, words)
		cancel()
		if err != nil {
			answer = fmt.Sprintf("failed: %v", err)
		}
		fmt.Println(answer)
	}
}

func (f *franz) answer(ctx context.Context, words []string) (string, error) {
	switch words[0] {
	case "open":
		return "open", f.open(ctx)
	case "transact":
		return f.transact(ctx, words[1], words[2] == "commit", words[3:])
	case "transform":
		count, _ := strconv.Atoi(words[4])
		return f.transform(ctx, words[1], words[2], words[3], count, words[5] == "commit")
	case "produce":
		return f.produce(ctx, words[1], words[2:])
	case "consume":
		count, _ := strconv.Atoi(words[3])
		return f.consume(ctx, words[1], words[2], count)
	case "follow":
		return "", f.follow(words[1], words[2])
	}
	return "", fmt.Errorf("no such command: %s", words[0])
}

func (f *franz) options(more ...kgo.Opt) []kgo.Opt {
	seeds := kgo.SeedBrokers(strings.Split(f.bootstrap, ",")...)
	return append([]kgo.Opt{seeds, kgo.RecordPartitioner(kgo.ManualPartitioner())}, more...)
}

// open has the coordinator give the transactional id a new epoch.
func (f *franz) open(ctx context.Context) error {
	client, err := kgo.NewClient(f.options(kgo.TransactionalID(f.id))...)
	if err != nil {
		return err
	}
	f.client = client
	_, _, err = client.ProducerID(ctx)
	return err
}

func inTurn(topic string, values []string) []*kgo.Record {
	var records []*kgo.Record
	for place, value := range values {
		records = append(records, &kgo.Record{Topic: topic, Partition: int32(place % partitions), Value: []byte(value)})
	}
	return records
}

func (f *franz) transact(ctx context.Context, topic string, commit bool, values []string) (string, error) {
	if err := f.client.BeginTransaction(); err != nil {
		return "", err
	}
	end := kgo.TransactionEndTry(commit)
	failure := f.client.ProduceSync(ctx, inTurn(topic, values)...).FirstErr()
	if failure != nil {
		end = kgo.TryAbort
		if err := f.client.AbortBufferedRecords(ctx); err != nil {
			return "", err
		}
	}
	if err := f.client.EndTransaction(ctx, end); err != nil {
		return "", err
	}
	if end == kgo.TryCommit {
		return "committed", nil
	}
	return "aborted", nil
}

func (f *franz) transform(ctx context.Context, source, target, group string, count int, commit bool) (string, error) {
	session, err := kgo.NewGroupTransactSession(f.options(
		kgo.TransactionalID(f.id),
		kgo.ConsumerGroup(group),
		kgo.ConsumeTopics(source),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.RequireStableFetchOffsets(),
	)...)
	if err != nil {
		return "", err
	}
	defer session.Close()
	if err := session.Begin(); err != nil {
		return "", err
	}
	for taken := 0; taken < count; {
		fetches := session.PollRecords(ctx, count-taken)
		if err := fetches.Err(); err != nil {
			return "", err
		}
		for _, record := range fetches.Records() {
			made := &kgo.Record{Topic: target, Value: []byte("<" + string(record.Value) + ">")}
			if err := session.ProduceSync(ctx, made).FirstErr(); err != nil {
				return "", err
			}
			taken++
		}
	}
	committed, err := session.End(ctx, kgo.TransactionEndTry(commit))
	if err != nil {
		return "", err
	}
	if committed {
		return "committed", nil
	}
	return "aborted", nil
}

func (f *franz) produce(ctx context.Context, topic string, values []string) (string, error) {
	client, err := kgo.NewClient(f.options()...)
	if err != nil {
		return "", err
	}
	defer client.Close()
	return "done", client.ProduceSync(ctx, inTurn(topic, values)...).FirstErr()
}

func (f *franz) member(topic, group string) (*kgo.Client, error) {
	return kgo.NewClient(f.options(
		kgo.ConsumerGroup(group),
		kgo.ConsumeTopics(topic),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.DisableAutoCommit(),
	)...)
}

func (f *franz) consume(ctx context.Context, topic, group string, count int) (string, error) {
	client, err := f.member(topic, group)
	if err != nil {
		return "", err
	}
	defer client.Close()
	var values []string
	for len(values) < count {
		fetches := client.PollRecords(ctx, count-len(values))
		if err := fetches.Err(); err != nil {
			return "", err
		}
		for _, record := range fetches.Records() {
			values = append(values, string(record.Value))
		}
	}
	return strings.Join(values, " "), client.CommitUncommittedOffsets(ctx)
}

// follow prints errors as lines that begin with "failed:", and goes on: what was not committed is read again.
func (f *franz) follow(topic, group string) error {
	client, err := f.member(topic, group)
	if err != nil {
		return err
	}
	for {
		fetches := client.PollFetches(context.Background())
		fetches.EachError(func(_ string, _ int32, err error) { fmt.Printf("failed: %v\n", err) })
		for _, record := range fetches.Records() {
			fmt.Println(string(record.Value))
		}
		if err := client.CommitUncommittedOffsets(context.Background()); err != nil {
			fmt.Printf("failed: %v\n", err)
		}
	}
}
