'use strict';

// Drives ali-ons: a task a line on standard input, an answer a line on standard output, both JSON. Started with
// "start NAMESRV TOPIC" it sends one message and says so, and that is all.

const readline = require('readline');
const { Producer, Consumer, Message } = require('ali-ons');

const quiet = { debug() {}, info() {}, warn() {}, error() {} };
const PAUSE_MS = 5; // so that the pull that waits for the next message is at the broker

function options(task, more) {
  return { httpclient: {}, logger: quiet, clientIP: '127.0.0.1', nameSrv: task.namesrv, ...more };
}

let producer = null; // one for all tasks: clients of one process share their connections anyway

async function producing(task) {
  if (producer === null) {
    producer = new Producer(options(task, { producerGroup: 'bench_javascript' }));
    await producer.ready();
  }
  return producer;
}

function message(task) {
  return new Message(task.topic, Buffer.from(task.body));
}

// Sends with so many in flight until the time or the messages are used up.
async function sending(task, window) {
  const sender = await producing(task);
  await keepingInFlight(sender, task, window, task.warm, Infinity);
  const meter = new Meter();
  const times = await keepingInFlight(sender, task, window, task.messages, meter.began + task.seconds * 1e3);
  const answer = meter.stop(times.length);
  const sorted = Float64Array.from(times).sort();
  return { ...answer, p50_us: percentile(sorted, 0.5) * 1e3, p99_us: percentile(sorted, 0.99) * 1e3 };
}

async function keepingInFlight(sender, task, window, messages, deadline) {
  const times = [];
  let left = messages;
  const keepSending = async () => {
    let before = performance.now();
    while (left > 0 && before < deadline) {
      left--;
      await sender.send(message(task));
      const now = performance.now();
      times.push(now - before);
      before = now;
    }
  };
  await Promise.all(Array.from({ length: window }, keepSending));
  return times;
}

function consumer(task, listener) {
  const made = new Consumer(options(task, {
    consumerGroup: task.group,
    consumeFromWhere: 'CONSUME_FROM_FIRST_OFFSET',
    pullThresholdForQueue: 1000, // Java's; with its own 500 it stops pulling for five seconds
  }));
  made.subscribe(task.topic, '*', listener);
  return made;
}

async function consuming(task) {
  let count = 0;
  let meter = null;
  let done;
  const all = new Promise(resolve => { done = resolve; });
  const made = consumer({ ...task, topic: task.filled_topic }, async () => {
    if (count === 0) meter = new Meter();
    count++;
    if (count === task.filled) done(meter.stop(count));
  });
  const answer = await all;
  await made.close();
  return answer;
}

async function latency(task) {
  const sender = await producing(task);
  let arrived = null;
  const made = consumer(task, async () => { if (arrived) arrived(performance.now()); });
  const exchange = async () => {
    const arrival = new Promise(resolve => { arrived = resolve; });
    const began = performance.now();
    await sender.send(message(task));
    return (await arrival) - began;
  };
  await exchange();
  const times = [];
  const deadline = performance.now() + task.seconds * 1e3;
  while (times.length < task.messages && performance.now() < deadline) {
    await new Promise(resolve => setTimeout(resolve, PAUSE_MS));
    times.push(await exchange());
  }
  await made.close();
  return { messages: times.length, latency_ms: middle(times) };
}

class Meter {
  constructor() {
    this.cpu = process.cpuUsage();
    this.began = performance.now();
  }

  stop(messages) {
    const used = process.cpuUsage(this.cpu);
    return { messages, seconds: (performance.now() - this.began) / 1e3, cpu: (used.user + used.system) / 1e6 };
  }
}

function middle(values) {
  return percentile(Float64Array.from(values).sort(), 0.5);
}

function percentile(sorted, share) { // nearest rank
  return sorted.length === 0 ? 0 : sorted[Math.max(0, Math.ceil(share * sorted.length) - 1)];
}

const shapes = {
  one: task => sending(task, 1),
  64: task => sending(task, 64),
  consume: consuming,
  latency,
};

function say(answer) {
  process.stdout.write(JSON.stringify(answer) + '\n');
}

async function serve() {
  say({ ready: process.version });
  for await (const line of readline.createInterface({ input: process.stdin })) {
    const task = JSON.parse(line);
    try {
      say(await shapes[task.shape](task));
    } catch (error) {
      say({ error: String(error && error.stack || error) });
    }
  }
  process.exit(0);
}

async function first(namesrv, topic) {
  const task = { namesrv, topic, body: 'first' };
  await (await producing(task)).send(message(task));
  say({ acknowledged: true });
}

if (process.argv[2] === 'start') first(process.argv[3], process.argv[4]); else serve();
