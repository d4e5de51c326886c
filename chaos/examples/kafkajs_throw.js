// Calls the service for invoices for each order with KafkaJS. An error makes KafkaJS retry the message.
const { Kafka } = require("kafkajs");

const kafka = new Kafka({ clientId: "billing", brokers: process.env.KAFKA_BOOTSTRAP_SERVERS.split(",") });
const consumer = kafka.consumer({ groupId: "billing", sessionTimeout: 10000, retry: { initialRetryTime: 50 } });

async function bill(order) {
  const answer = await fetch(process.env.INVOICES_URL, {
    method: "POST",
    body: JSON.stringify({ order_id: order.order_id, total: order.amount }),
  });
  if (!answer.ok) throw new Error(`no invoice for ${order.order_id}: status ${answer.status}`);
}

async function main() {
  await consumer.connect();
  await consumer.subscribe({ topics: ["orders"], fromBeginning: true });
  await consumer.run({
    eachMessage: async ({ message }) => bill(JSON.parse(message.value.toString())),
  });
}

main();
