// Drives Apache's Go client. `produce` sends in every way that is named and ends; `consume` prints what is delivered
// until the end of standard input. Each prints one JSON object a line, its first key "event".
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/apache/rocketmq-client-go/v2"
	"github.com/apache/rocketmq-client-go/v2/consumer"
	"github.com/apache/rocketmq-client-go/v2/primitive"
	"github.com/apache/rocketmq-client-go/v2/producer"
	"github.com/apache/rocketmq-client-go/v2/rlog"
)

const (
	shop  = "nördlich"
	large = 20000
)

type options struct {
	namesrv, group, topic, ways, tags string
	count, failFirst, linger          int
}

type sent struct {
	Event       string `json:"event"`
	Way         string `json:"way"`
	Status      int    `json:"status"`
	MsgID       string `json:"msgId"`
	QueueOffset int64  `json:"queueOffset"`
}

type message struct {
	Event          string `json:"event"`
	Body           string `json:"body"`
	Topic          string `json:"topic"`
	Tags           string `json:"tags"`
	Keys           string `json:"keys"`
	Shop           string `json:"shop"`
	QueueID        int    `json:"queueId"`
	QueueOffset    int64  `json:"queueOffset"`
	ReconsumeTimes int32  `json:"reconsumeTimes"`
	BornTimestamp  int64  `json:"bornTimestamp"`
	StoreTimestamp int64  `json:"storeTimestamp"`
	Accepted       bool   `json:"accepted"`
}

var output sync.Mutex

func say(event any) {
	line, err := json.Marshal(event)
	check(err)
	output.Lock()
	defer output.Unlock()
	fmt.Println(string(line))
}

func sayThat(event string) {
	say(struct {
		Event string `json:"event"`
	}{event})
}

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func bodyOf(way string, number int) []byte {
	body := fmt.Sprintf("%s-%d", way, number)
	if way == "large" {
		body += strings.Repeat(".", large-len(body))
	}
	return []byte(body)
}

func makeMessage(asked options, way string, number int) *primitive.Message {
	made := primitive.NewMessage(asked.topic, bodyOf(way, number))
	made.WithTag(way).WithKeys([]string{fmt.Sprintf("key-%s-%d", way, number)})
	made.WithProperty("shop", shop)
	if way == "delayed" {
		made.WithDelayTimeLevel(1)
	}
	if way == "ordered" {
		made.WithShardingKey("one")
	}
	return made
}

func told(way string, result *primitive.SendResult) {
	say(sent{"sent", way, int(result.Status), result.MsgID, result.QueueOffset})
}

// sendSoon sends all at once and waits for every answer.
func sendSoon(sender rocketmq.Producer, way string, messages []*primitive.Message) {
	var answers sync.WaitGroup
	answers.Add(len(messages))
	for _, each := range messages {
		check(sender.SendAsync(context.Background(), func(_ context.Context, result *primitive.SendResult, err error) {
			check(err)
			told(way, result)
			answers.Done()
		}, each))
	}
	answers.Wait()
}

func send(sender rocketmq.Producer, way string, messages []*primitive.Message) {
	switch way {
	case "async":
		sendSoon(sender, way, messages)
	case "batch":
		result, err := sender.SendSync(context.Background(), messages...)
		check(err)
		told(way, result)
	case "oneway":
		for _, each := range messages {
			check(sender.SendOneWay(context.Background(), each))
		}
	default:
		for _, each := range messages {
			result, err := sender.SendSync(context.Background(), each)
			check(err)
			told(way, result)
		}
	}
}

func produce(asked options) {
	// Its selector by hash takes the queue of the sharding key, and any queue where there is none.
	sender, err := rocketmq.NewProducer(producer.WithNameServer(strings.Split(asked.namesrv, ";")),
		producer.WithGroupName(asked.group), producer.WithQueueSelector(producer.NewHashQueueSelector()))
	check(err)
	check(sender.Start())
	for _, way := range strings.Split(asked.ways, ",") {
		messages := make([]*primitive.Message, asked.count)
		for number := range messages {
			messages[number] = makeMessage(asked, way, number)
		}
		send(sender, way, messages)
	}
	sayThat("done")
	check(sender.Shutdown())
}

// taker tells what is delivered, and fails so many deliveries of each message.
type taker struct {
	asked      options
	lock       sync.Mutex
	deliveries map[string]int
}

func (t *taker) take(_ context.Context, delivered ...*primitive.MessageExt) (consumer.ConsumeResult, error) {
	t.lock.Lock()
	defer t.lock.Unlock()
	answer := consumer.ConsumeSuccess
	for _, each := range delivered {
		body := string(each.Body)
		t.deliveries[body]++
		accepted := t.deliveries[body] > t.asked.failFirst
		if !accepted {
			answer = consumer.ConsumeRetryLater
		}
		say(message{"message", body, each.Topic, each.GetTags(), each.GetKeys(), each.GetProperty("shop"),
			each.Queue.QueueId, each.QueueOffset, each.ReconsumeTimes, each.BornTimestamp, each.StoreTimestamp,
			accepted})
	}
	time.Sleep(time.Duration(t.asked.linger) * time.Millisecond)
	return answer, nil
}

func consume(asked options) {
	settings := []consumer.Option{consumer.WithNameServer(strings.Split(asked.namesrv, ";")),
		consumer.WithGroupName(asked.group), consumer.WithConsumeFromWhere(consumer.ConsumeFromFirstOffset)}
	if asked.linger > 0 {
		settings = append(settings, consumer.WithConsumeGoroutineNums(1))
	}
	receiver, err := rocketmq.NewPushConsumer(settings...)
	check(err)
	selector := consumer.MessageSelector{Type: consumer.TAG, Expression: asked.tags}
	takes := &taker{asked: asked, deliveries: map[string]int{}}
	check(receiver.Subscribe(asked.topic, selector, takes.take))
	check(receiver.Start())
	sayThat("ready")
	_, err = io.Copy(io.Discard, os.Stdin)
	check(err)
	check(receiver.Shutdown())
	sayThat("stopped")
}

func main() {
	rlog.SetLogLevel("error")
	var asked options
	flags := flag.NewFlagSet("driver", flag.ExitOnError)
	flags.StringVar(&asked.namesrv, "namesrv", "", "name servers")
	flags.StringVar(&asked.group, "group", "", "group")
	flags.StringVar(&asked.topic, "topic", "", "topic")
	flags.StringVar(&asked.ways, "ways", "", "ways of sending, with commas")
	flags.StringVar(&asked.tags, "tags", "*", "tags to subscribe")
	flags.IntVar(&asked.count, "count", 0, "messages in each way")
	flags.IntVar(&asked.failFirst, "fail-first", 0, "deliveries of each message to fail")
	flags.IntVar(&asked.linger, "linger", 0, "milliseconds in the listener after telling; then one message at a time")
	check(flags.Parse(os.Args[2:]))
	map[string]func(options){"produce": produce, "consume": consume}[os.Args[1]](asked)
}
