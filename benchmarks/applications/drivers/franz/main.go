// The driver for franz-go; for arguments and output see __init__.py in the folder above.
package main

import (
	"context"
	"fmt"
	"os"
	"strings"
	"sync"
	"syscall"
	"time"
	"unsafe"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

const pace = 10 * time.Millisecond
const clockMonotonic = 1

var printing sync.Mutex

func saySuccess() {
	var now syscall.Timespec
	syscall.Syscall(syscall.SYS_CLOCK_GETTIME, clockMonotonic, uintptr(unsafe.Pointer(&now)), 0)
	printing.Lock()
	defer printing.Unlock()
	fmt.Println(now.Nano())
}

func sayFailure(err error) {
	printing.Lock()
	defer printing.Unlock()
	fmt.Println("failed: " + strings.ReplaceAll(err.Error(), "\n", " "))
}

func say(err error) {
	if err == nil {
		saySuccess()
	} else {
		sayFailure(err)
	}
}

func client(options ...kgo.Opt) *kgo.Client {
	made, err := kgo.NewClient(options...)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	return made
}

func produce(seeds kgo.Opt, topic string) {
	producer := client(seeds, kgo.DefaultProduceTopic(topic))
	for {
		record := &kgo.Record{Value: make([]byte, 100)}
		producer.Produce(context.Background(), record, func(_ *kgo.Record, err error) { say(err) })
		time.Sleep(pace)
	}
}

func commit(seeds kgo.Opt, topic, group string) {
	consumer := client(seeds, kgo.ConsumeTopics(topic), kgo.ConsumerGroup(group))
	for offset := int64(1); ; offset++ {
		ctx, cancel := context.WithTimeout(context.Background(), pace)
		consumer.PollFetches(ctx)
		cancel()
		if _, generation := consumer.GroupMetadata(); generation < 0 {
			continue
		}
		offsets := map[string]map[int32]kgo.EpochOffset{topic: {0: {Epoch: -1, Offset: offset}}}
		var failure error
		consumer.CommitOffsetsSync(context.Background(), offsets,
			func(_ *kgo.Client, _ *kmsg.OffsetCommitRequest, response *kmsg.OffsetCommitResponse, err error) {
				failure = firstError(response, err)
			})
		say(failure)
	}
}

func firstError(response *kmsg.OffsetCommitResponse, err error) error {
	if err != nil {
		return err
	}
	for _, topic := range response.Topics {
		for _, partition := range topic.Partitions {
			if partition.ErrorCode != 0 {
				return fmt.Errorf("error %d of partition %d", partition.ErrorCode, partition.Partition)
			}
		}
	}
	return nil
}

func transact(seeds kgo.Opt, topic, id string) {
	ctx := context.Background()
	for {
		producer := client(seeds, kgo.DefaultProduceTopic(topic), kgo.TransactionalID(id))
		for one(ctx, producer) {
			time.Sleep(pace)
		}
		producer.Close()
	}
}

// one returns whether the producer can go on.
func one(ctx context.Context, producer *kgo.Client) bool {
	if err := producer.BeginTransaction(); err != nil {
		sayFailure(err)
		return false
	}
	err := producer.ProduceSync(ctx, &kgo.Record{Value: make([]byte, 100)}).FirstErr()
	if err == nil {
		err = producer.EndTransaction(ctx, kgo.TryCommit)
		say(err)
		return err == nil
	}
	sayFailure(err)
	return producer.EndTransaction(ctx, kgo.TryAbort) == nil
}

func main() {
	seeds := kgo.SeedBrokers(strings.Split(os.Args[2], ",")...)
	switch os.Args[1] {
	case "produce":
		produce(seeds, os.Args[3])
	case "commit":
		commit(seeds, os.Args[3], os.Args[4])
	case "transact":
		transact(seeds, os.Args[3], os.Args[4])
	default:
		fmt.Fprintf(os.Stderr, "unknown work %q\n", os.Args[1])
		os.Exit(2)
	}
}
