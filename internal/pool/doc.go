// Package pool keeps everything that replicas share in Redis: the tokens of each identity, the
// tickets of callers that wait, the journal of orders, permits, budgets, brakes and counters.
//
// All keys have one hash tag, so that one script sees them all. Each step that must happen as a whole is one script,
// next to its method. The tables in testdata show what each script changes: read take.txt first.
//
// # Keys
//
// The tag is {captcha} by default (redis.prefix). ID is an identity, ORDER an order, CALL a call, ACCOUNT the name of a
// provider of the file, and KEY that name with a hash of the account's key: PROVIDER.HASH.
//
//	tokens:ID            list    EXPIRES_MS|ORDER, earliest expiry first
//	token:ORDER          string  born ms|provider|price|extra|text; until a minute after its expiry, or its hand-out
//	sale:ORDER           string  a token that landed: identity|provider|task|born ms|type, then |report; until 15 min
//	                             after its expiry, so that callers can report on it. Without another
//	                             provider the type is empty
//	tickets:ID           zset    need ms|replica|call -> arrival in µs; a ticket without a replica
//	                             belongs to a client task
//	reply:CALL           string  the answer of a call: KIND|FINGERPRINT|...; see take
//	order:ORDER          hash    the journal: id, account, owner (the replica that runs it), state (see State), placed,
//	                             submit (a nonce), submitted, task, price, and facts (JSON); after its end `state` ended
//	                             for 60 s
//	deadlines            zset    order -> ms of its deadline
//	owned:REPLICA        set     the orders that a replica runs
//	replicas             zset    replica -> ms of its last beat
//	permits:ACCOUNT      zset    order -> deadline; the orders in flight at an account
//	inflight:ID          zset    order -> deadline; the orders in flight of an identity
//	queue:OBSTACLE       zset    identity -> its turn; the identities that an account (its permits or its brake) or a
//	                             shared budget refused. OBSTACLE is the ACCOUNT or budget:SCOPE. Callers come first, then
//	                             the oldest
//	obstacles            zset    obstacle -> ms at which its first identity may try again
//	turn:ID              string  the place in the queue that an identity had; 10 s
//	solves:SCOPE         zset    order -> ms; only of scopes that have a limit
//	money:SCOPE:MONTH    hash    day of the UTC month -> millionths of the currency; of scopes that limit money, and of
//	                             the scope spent, which has all; 40 days
//	brake:ID, brake:KEY  hash    what keeps an identity, or an account with this key, from buying: the fields of Brake;
//	                             count, the failures by weight, which the script end compares with its limits; and
//	                             up, the ms of the last submit or poll that proved the account
//	stats:ID             hash    counters (see Counters), the last leads, reports and failures, hour (the UTC hour that
//	                             was noted last), and of the last decision status (JSON) and learned_version. All
//	                             identities without a target have the counters of the ID guests
//	minutes:ID:HOUR      hash    counters of an hour by minute
//	periods:ID           hash    hours, days: HOUR|COUNTER..., the noted counters before the first event of a UTC hour,
//	                             newest first; of the last 25 hours and the last 8 days that had an event
//	outcomes:ACCOUNT:TYPE  hash   results of a provider's orders; see Sums; a day. Only with several providers
//	savings:DATE         hash    requests of /solve by source, of a UTC day; 7 days
//	due                  zset    identity -> ms of its next decision
//	learned:ID           string  the learned state of the demand
//	rate:ID              list    times of the last hand-outs, newest first; only with a rate
//	rate:guests          zset    nonces of the last requests for guests; only with a rate
//	client_task:CALL     hash    a client task: nonce, caller, id, type, facts (JSON), made (ms), then ended and order
//	client_tasks:CALLER  zset    unfinished tasks of a caller -> ms of their submit
//	value:ID:HASH        string  the order that brought the text with this hash
//	task:ACCOUNT:TASK    string  the order of a task
//	outbox:ends, outbox:handouts  streams  rows for the sink
//	outbox:dropped       hash    rows that found no room, by stream
//	sender               string  the replica that is sending rows; 20 s
//	data                 string  random name of the data; see package redisdb
//	secret               string  signs the ids of tokens; see package tokenid
//	wake:REPLICA         channel the call for which a token is ready
//
// # Files
//
//	take.go, report.go           callers: takes, waits, cancels, reports
//	guest.go, tasks.go           identities without a target, and tasks of clients of solving services
//	decide.go, order.go          a decision; an order from its placing to its end
//	journal.go, brake.go, budget.go  orders of dead replicas; what keeps orders back
//	outbox.go                    the rows for the history
//	survey.go, sums.go, savings.go  what the status page and the choice of a provider read
//	script.go, pool.go           the scripts' common part; the Pool and its helpers
//
// # Rules
//
//   - Redis' clock decides.
//   - Every script may be repeated with the same arguments. The answer of a call is stored together with the hand-out.
//     Each call and each order leaves a tombstone that lives longer than a message can be late (reply:CALL, and state
//     ended of order:ORDER). Only a repeated miss, refusal or flush may count again, or have another result.
//   - A script may refuse a step, such as a submit, but it never refuses a fact: a task or a token. Before its
//     deadline, only the owner or a callback may say that an order brought nothing; afterwards any replica may.
//   - The scripts cancel and end, and a take that finds a token, work while Redis is full, because their first write
//     needs no memory.
//   - No caller gets a token that an older ticket could have.
package pool
