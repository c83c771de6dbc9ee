'use strict';

// Drives ali-ons. `produce` sends in every way that is named and ends; `consume` prints what is delivered until the end
// of standard input. Each prints one JSON object a line, its first key "event".

const { setTimeout } = require('node:timers/promises');
const { Producer, Consumer, Message } = require('ali-ons');

const SHOP = 'nördlich';
const LARGE = 20000;
const quiet = { debug() {}, info() {}, warn() {}, error() {} };

function parse([work, ...rest]) {
  const options = { work, ways: '', count: '0', tags: '*', 'fail-first': '0', linger: '0' };
  for (let at = 0; at < rest.length; at += 2) options[rest[at].slice(2)] = rest[at + 1];
  return options;
}

function say(event, keys) {
  process.stdout.write(JSON.stringify({ event, ...keys }) + '\n');
}

function message(options, way, number) {
  const body = `${way}-${number}`;
  const made = new Message(options.topic, way, way === 'large' ? body.padEnd(LARGE, '.') : body);
  made.keys = [`key-${way}-${number}`];
  made.properties.shop = SHOP;
  if (way === 'delayed') made.delayTimeLevel = 1;
  if (way === 'ordered') made.shardingKey = 'one';
  return made;
}

async function produce(options) {
  const producer = new Producer({
    httpclient: {}, logger: quiet, clientIP: '127.0.0.1', nameSrv: options.namesrv, producerGroup: options.group,
  });
  await producer.ready();
  for (const way of options.ways.split(',')) {
    const messages = Array.from({ length: Number(options.count) }, (_, number) => message(options, way, number));
    const send = async each => {
      const result = await producer.send(each);
      say('sent', { way, ...result, queueId: result.messageQueue.queueId });
    };
    if (way === 'async') await Promise.all(messages.map(send));
    else for (const each of messages) await send(each);
  }
  say('done');
  await producer.close();
  process.exit(0);
}

async function consume(options) {
  const failFirst = Number(options['fail-first']);
  const deliveries = new Map();
  const consumer = new Consumer({
    httpclient: {}, logger: quiet, clientIP: '127.0.0.1', nameSrv: options.namesrv, consumerGroup: options.group,
    consumeFromWhere: 'CONSUME_FROM_FIRST_OFFSET',
  });
  consumer.on('error', error => console.error(error)); // a listener that fails is told of here, too
  consumer.subscribe(options.topic, options.tags, async msg => {
    const body = msg.body.toString();
    deliveries.set(body, (deliveries.get(body) || 0) + 1);
    const accepted = deliveries.get(body) > failFirst;
    say('message', {
      body,
      topic: msg.topic,
      tags: msg.tags,
      keys: msg.keys,
      shop: msg.properties.shop,
      queueId: msg.queueId,
      queueOffset: Number(msg.queueOffset),
      reconsumeTimes: msg.reconsumeTimes,
      bornTimestamp: Number(msg.bornTimestamp),
      storeTimestamp: Number(msg.storeTimestamp),
      accepted,
    });
    await setTimeout(Number(options.linger));
    if (!accepted) throw new Error('told to fail');
  });
  await consumer.ready();
  say('ready');
  process.stdin.on('end', async () => {
    await consumer.close();
    say('stopped');
    process.exit(0);
  });
  process.stdin.resume();
}

const options = parse(process.argv.slice(2));
({ produce, consume })[options.work](options).catch(error => {
  console.error(error);
  process.exit(1);
});
