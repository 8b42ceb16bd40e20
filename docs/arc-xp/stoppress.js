// A handler for Arc XP's Integration Framework (IFX): posts each event to Stoppress, signed as Standard Webhooks 1.0.
const crypto = require('node:crypto');

module.exports = async (event) => {
  const body = JSON.stringify(event);
  const id = `msg_${event.uuid || crypto.randomUUID()}`;
  const at = String(Math.floor(Date.now() / 1000));
  const key = Buffer.from(process.env.STOPPRESS_SECRET.replace(/^whsec_/, ''), 'base64');
  const signature = crypto.createHmac('sha256', key).update(`${id}.${at}.`).update(body).digest('base64');
  const answer = await fetch(process.env.STOPPRESS_URL, {
    method: 'POST',
    headers: { 'content-type': 'application/json', 'webhook-id': id, 'webhook-timestamp': at, 'webhook-signature': `v1,${signature}` },
    body,
  });
  if (answer.status === 429 || answer.status >= 500) throw new Error(`Stoppress: ${answer.status}`); // IFX retries
  return answer.json();
};
