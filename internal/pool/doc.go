// Package pool is WHERE tokens wait: the stock of every identity, in Redis.
//
// It stands between purchase, which places orders and lands tokens, and
// httpapi, which takes them. It knows nothing of targets, providers or HTTP.
//
// A Store has these faces, which share one Redis (internal/redisdb):
//
//	Tokens     takes and returns (tokens.go, take*.go, returns.go, repeat.go), the state of
//	           stocks (look.go), reports (report.go)
//	Orders     orders until they end (orders.go), their leases (leases.go), many of them in one
//	           exchange (journal.go), permits at providers (permits.go), budgets (budget.go)
//	Standings  the faults of providers, and the submits that they refused (standing.go)
//	Controls   pauses, windows (warm.go) and the learned state of an identity
//	Guests     identities without a target: guests.go, retire.go
//	Replicas   the live replicas, and the status that each shares (replicas.go)
//	Endings    the ends of orders, until the history has them (endings.go)
//
// Beside them are the news between replicas (news.go) and the signing of tokens' names
// (signer.go). Each step that must be atomic is a script in lua/; its header declares the
// names of its keys, arguments and reply (redisdb.Script). A queue of callers that is idle
// for a minute is dropped (tokens.go).
//
// # Keys
//
// {id} is the identity's hash, also the cluster's hash tag, so that one script
// sees all of one identity. Every key has a TTL: what is known of an identity is
// kept for 30 days after the last look that says so (Query.Keep), and for 50 hours once nobody wants it
// (Tokens.Leave). With the prefix "captcha":
//
//	captcha:pool:{id}           list    the tokens, soonest death first; see below
//	captcha:orders:{id}         zset    order -> Unix ms after which it no longer counts
//	captcha:journal:{id}        hash    order -> what is known of it; see below
//	captcha:leases:{id}         zset    order -> Unix ms after which any replica may adopt it
//	captcha:spend:{id}          zset    order -> Unix ms; the target's budget of the last 24 h
//	captcha:tickets:{id}        zset    ticket, see below -> arrival, Unix microseconds
//	captcha:seen:{id}           zset    ticket -> Unix ms of its replica's last sign of life; "ticket|REPLICA" for a key's
//	captcha:stats:{id}          hash    counters since the identity was first seen (Figures)
//	captcha:hour:{id}           string  some counters by minute, of the last hour; see below
//	captcha:leads:{id}          list    the last 48 lead times in ms, newest first
//	captcha:mind:{id}           string  what was learned about the demand, in refill's own format
//	captcha:verdicts:{id}       list    the last 20 reports, newest first: 1 accepted, 0 rejected
//	captcha:sold:{id}:ORDER     string  "call|born ms|provider|task" of a landed token, "|reported" behind it; "call|" of a failed order, "call|repeated" of a repeated token
//	captcha:paused:{id}         string  "until Unix ms, 0 = Resume|key|reason", query-escaped, while buying is paused by an operator
//	captcha:values:{id}         zset    hash of a token's text -> its death, Unix ms; taken tokens too
//	captcha:untold:{id}         zset    "ticket|arrival|failed|reason" of a caller whose order failed, or refused for failed -> Unix ms until which it can be told
//	captcha:junk:{id}           list    the last 20 foreign values that were found in our keys, newest first
//	captcha:attempts:{id}       hash    the orders that failed since the last solve, and when the next may be placed (lua/attempts.lua)
//	captcha:warm:{id}           zset    "begin|tokens" of a window -> its end, both Unix ms
//	captcha:warmers:{id}        hash    that member -> the caller that made it, where it has a limit of windows
//	captcha:rate:{id}           list    times of the last hand-outs, where the target has a rate
//	captcha:last:{id}:REPLICA   list    the number of the replica's last take, then its answer
//	captcha:once:{id}:HASH      string  "min_ttl ms|token" of one Idempotency-Key, until the token dies
//	captcha:bound:{HASH}        string  the identity that an Idempotency-Key of POST /solve is bound to
//	captcha:first:{id}:ORDER    string  the fence of the holder that hands out a shared token first, until the token dies
//	captcha:back:{id}:HANDOUT   string  marks a hand-out that was taken back
//	captcha:places:{provider}   zset    order.id -> Unix ms until which it holds a permit at the provider
//	captcha:standing:{provider} hash    why the provider is down, and the submits that it refused (lua/standing.lua)
//	captcha:status:{id}         string  what the replica that watches says of it, in refill's own format
//	captcha:replicas            zset    replica -> Unix ms until which it lives
//	captcha:providers           zset    provider -> Unix ms until which there may be permits at it
//	captcha:task:{provider}:T   string  the order.id that task T belongs to
//	captcha:spend:{overall}     zset    order.id -> Unix ms; the budget over all orders
//	captcha:spend:{solve}       zset    order.id -> Unix ms; the budget over all guests
//	captcha:counted:{solve}:CALL  string  marks a call whose requests for guests are counted
//	captcha:guests:{solve}      zset    identity that no target has -> Unix ms of the next look at it
//	captcha:rate:{solve}        list    times of the last requests for guests
//	captcha:stats:{solve}       hash    Figures of all guests that are gone, and how many folds that took
//	captcha:retired:{id}        hash    Figures of a guest that is gone, and their name (nonce), until they are in there;
//	                                    left for some minutes where a target took it over
//	captcha:folded:{solve}      zset    nonce -> Unix ms until which it is known
//	captcha:hold:{solve}        string  the survey that keeps everybody from folding, for some seconds
//	captcha:ended:{id}          zset    the end of an order, see below -> Unix ms; for 7 days at most
//	captcha:placed              zset    identity of a target for which orders were placed -> Unix ms until which ends of them may come
//	captcha:secret              string  what names of tokens are signed with, for all replicas
//
// An element of the list is one token with everything about it:
//
//	dies ms (13 digits)|born ms|order id|provider|user agent, query-escaped|token
//
// A ticket is a caller that waits, or all callers that wait with one Idempotency-Key,
// at whichever replica; the life that they need stands in front:
//
//	need ms:REPLICA:number or need ms:key:HASH
//
// A line of the journal is one order under way:
//
//	placed ms|state|owner|unsolved ms|price|task, query-escaped|facts
//
// where state is i (an intent: placed, nothing sent), s (its submit may have
// left), b (bought: the task is known) or u (unknown: bought or not); owner is
// the replica that works on it; unsolved is how long after the placing the
// submit left, so the task was not solved before; facts are the buyer's own.
//
// The end of an order is
//
//	order|placed ms|unsolved ms|price|task|how|code|provider|task|submit ms|polls|callback|solve ms|facts
//
// with texts query-escaped; what is behind the first task is of who ended it, in ms since
// the placing, -1 where that is not known.
//
// The last hour is the counters of minuteNames at the last look, and then, newest first, what
// was counted in each minute since 1970 in which anything was:
//
//	requests hits waited misses bought solved|minute requests hits ...|minute requests ...
//
// # Invariants
//
//   - Facts are stored, policy is applied on read: an element says when the
//     token was born and when it truly dies; the margin comes with each call.
//   - Life is judged by Redis' TIME inside the scripts, never by this process'
//     clock. Durations go in, moments stay there; a token's birth is counted from
//     when its order was placed, so that a landing that comes late is no younger.
//   - A take can be sent twice, where its answer was lost. Each replica numbers
//     its takes of an identity and has one under way at a time, and the script
//     repeats the answer to the last number and refuses older ones. So nothing
//     vanishes and nothing is given twice. What Redis refuses was not carried out,
//     so that the next take need not wait for it.
//   - A script reads each key by its type before it writes anything, so that a
//     foreign value ends it with nothing done. Those that hand out, take back or
//     end what was paid for begin with a write that needs no memory: Redis refuses
//     a script only at its first write.
//   - A token that cannot be taken back now is taken back later, while the replica
//     runs and the token lives. No caller of Return waits for it.
//   - A process keeps nothing of an identity that nobody asked for in the last
//     minute, and no mutex over an exchange with Redis.
//   - A text lives once in an identity: a landing with the text of a token that is
//     not dead yet, taken or not, ends its order as failed. Texts of pictures may come
//     again (Landing.Repeats).
//   - An order ends once: the script that removes it appends the token.
//   - What a replica does for an order (submit, settle by polling, give up) is
//     checked against the order's owner in the script that writes it. A lease
//     that ended lets another replica become the owner; a replica that was
//     stopped for that long can then do nothing more for the order, but for one
//     thing: the replica that stores the task id becomes the owner. Callbacks need no lease.
//   - The figures balance in every answer of look.lua (Figures says how), because
//     each script moves a token or an order and its counts in one step, and the
//     keys that they are in live as long as the figures.
//   - A guest's figures are in the row of all guests once, whoever dies over it: they
//     are set apart under a name of their own in one step, added to the row in
//     another that knows the names, and then forgotten. A survey of the guests finds
//     each in one of the three places. So they are where a target takes the identity over
//     (Guests.Leave): its figures begin with what it took over as bought, which the
//     guests count as discarded, so that both balance and neither goes back.
//   - What a target leaves, and what was counted of it, is nobody's when the file has it
//     no more: it is forgotten in two days. Where it is asked for as a guest before that,
//     it is the guests', whose counters rise by it.
//   - A budget's span slides by the millisecond: what is in it are the orders
//     themselves. Only an order that was provably not bought leaves it early.
//   - A window that is over is never told: each script that reads the windows
//     judges their ends, and removes what is over. Warm twice leaves one window, so
//     its script may be sent twice.
//   - Bookings in budgets and figures of guests may be sent twice: each counts once.
//   - A caller with a ticket is never overtaken by one that could use the same
//     token, whichever replica it asked. A ticket that several replicas hold is
//     given up with its last caller.
//   - A failed order of a guest and the ticket of the caller that lacks it go in one step
//     (ending.lua), so that no replica places another one for it. The caller, named by
//     ticket and arrival, hears of it in its next take.
//
// # Limits
//
// No script walks the list: counting is a binary search, a take comes off the
// front. Only a take with a min_ttl makes Redis skip the older tokens. What
// Redis itself loses (a failover, a restart without AOF) is lost here. Its clock
// may be set back by the margin; by more, and the stock is thrown away once its
// newest token is seen to be born in the future.
package pool
