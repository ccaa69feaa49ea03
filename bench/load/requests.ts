import autocannon from 'autocannon'

/** Sends invokes to `url` over 64 connections for a number of seconds, with a key where one is given, and prints what came back as JSON. */
const [url, seconds, token = ''] = process.argv.slice(2)
const result = await autocannon({
  url: url!,
  connections: 64,
  duration: Number(seconds),
  method: 'POST',
  headers: { 'content-type': 'application/json', ...token === '' ? {} : { authorization: `Bearer ${token}` } },
  body: JSON.stringify({ input: { a: 19, b: 23 } })
})
if (result.non2xx + result.errors + result.timeouts > 0) throw new Error(`${result.non2xx} answers were not 2xx, ${result.errors} failed`)
process.stdout.write(JSON.stringify({ perSecond: result.requests.average, p50: result.latency.p50, p99: result.latency.p99 }))
