// Writes an invoice for each order with @platformatic/kafka, and lets the stream commit what it has read.
import { Consumer, MessagesStreamFallbackModes, MessagesStreamModes, Producer } from "@platformatic/kafka";
import { stringDeserializers, stringSerializers } from "@platformatic/kafka";
import { setTimeout } from "node:timers/promises";

const bootstrapBrokers = process.env.KAFKA_BOOTSTRAP_SERVERS.split(",");
const producer = new Producer({ clientId: "billing", bootstrapBrokers, serializers: stringSerializers });
const consumer = new Consumer({
  groupId: "billing",
  clientId: "billing",
  bootstrapBrokers,
  deserializers: stringDeserializers,
});

const stream = await consumer.consume({
  autocommit: true,
  topics: ["orders"],
  mode: MessagesStreamModes.COMMITTED,
  fallbackMode: MessagesStreamFallbackModes.EARLIEST,
  sessionTimeout: 10000,
  heartbeatInterval: 500,
});

for await (const message of stream) {
  const order = JSON.parse(message.value);
  await setTimeout(25); // the work
  const invoice = { order_id: order.order_id, total: order.amount };
  await producer.send({ messages: [{ topic: "invoices", key: message.key, value: JSON.stringify(invoice) }] });
}
