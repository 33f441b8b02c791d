// Package pool is WHERE tokens wait: the stock of every identity, in Redis.
//
// It stands between purchase, which places orders and lands tokens, and
// httpapi, which takes them. It knows nothing of targets, providers or HTTP.
//
// A Store has these faces, which share one client (client.go):
//
//	Tokens     hands out and takes back (tokens.go, take*.go, returns.go, repeat.go), looks at stocks
//	           (look.go) and counts reports (report.go)
//	Orders     keeps what is bought until it is a token: orders.go, their leases
//	           (leases.go), many of them at once (journal.go), permits at providers
//	           (permits.go), budgets (budget.go)
//	Standings  how the providers do: their faults and the submits that they refused (standing.go)
//	Controls   what is said about an identity: pauses, windows (warm.go), what was learned
//	Guests     identities that no target has, until they are gone: guests.go, retire.go
//	Replicas   what the daemons tell each other of themselves (replicas.go)
//	Claims     the solves that equal requests share (claim.go, claims.go), and what that
//	           saved (savings.go)
//	Endings    the ends of orders, until whoever keeps the history has them (endings.go)
//	Archive    the history that is kept in Redis itself (archive.go), with the audit (audit.go)
//	Arrivals   when requests came, for a day (arrivals.go)
//	Tasks      the records of the compatible endpoints' tasks (tasks.go)
//
// Beside them are the news between replicas (news.go), the health of Redis (health.go,
// review.go) and the signing of tokens' names (signer.go). What must happen in one step
// is a script in lua/; its header declares the names of its keys, arguments and reply
// (script.go). A queue of callers that is idle for a minute is forgotten (tokens.go).
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
//	captcha:claim:{dedup}:KEY           hash    the solve of a key that is under way, or ended last; see below
//	captcha:claim:{dedup}:KEY:token     hash    solve, ends (Unix ms until which it is shared), value: of the last token
//	captcha:claim:{dedup}:KEY:failure   hash    the same of the last failure
//	captcha:savings:{dedup}:2006-01-02  hash    source -> requests of that UTC day; for 7 days after the last one
//	captcha:counted:{dedup}:CALL        string  marks a call whose requests are counted; with {solve} those for guests
//	captcha:compat:{TASK}       hash    caller, identity, type, guest, made, asked, holder, lease, order, failed, told of a task of
//	                                    the compatible endpoints; see Tasks
//	captcha:guests:{solve}      zset    identity that no target has -> Unix ms of the next look at it
//	captcha:rate:{solve}        list    times of the last requests for guests
//	captcha:stats:{solve}       hash    Figures of all guests that are gone, and how many folds that took
//	captcha:retired:{id}        hash    Figures of a guest that is gone, and their name (nonce), until they are in there;
//	                                    left for some minutes where a target took it over
//	captcha:folded:{solve}      zset    nonce -> Unix ms until which it is known
//	captcha:hold:{solve}        string  the survey that keeps everybody from folding, for some seconds
//	captcha:ended:{id}          zset    the end of an order, see below -> Unix ms; for 7 days at most
//	captcha:placed              zset    identity of a target for which orders were placed -> Unix ms until which ends of them may come
//	captcha:solve:{history}:ORDER.id      string  "site|Unix ms" of a record
//	captcha:alias:{history}:HASH          string  ORDER.id of the newest record of an alias
//	captcha:records:{history}:site:HASH   zset    a record -> Unix ms of its end; the newest 50 of a site
//	captcha:records:{history}:STATUS      zset    the same, the newest 1,000 of a status
//	captcha:day:{history}:2006-01-02      hash    figures of that UTC day
//	captcha:audit:{history}:HASH          zset    "ID text" of a line about a name -> Unix ms; the newest 10,000
//	captcha:usage:{history}:2006-01-02    hash    figures of the lines of that UTC day
//	captcha:arrivals:{target}:2006-01-02T15   hash    "minute:REPLICA" of that UTC hour -> when requests came, in history's own format
//	captcha:secret              string  what names of tokens are signed with, for all replicas
//	captcha:probe:{0}           string  written twice a second to see whether Redis takes writes; in a cluster one at each master
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
// The fields of a claim:
//
//	solve     names the solve, whoever holds it
//	identity  whose stock it takes from
//	fence     number of the last holder; grows with each
//	lease     Unix ms after which another replica may take over
//	stops     Unix ms after which the solve is under way no more
//	asked     Unix ms of the last entry that was told to wait
//	call      the entry that made the last holder
//	ended     hash of how it ended; absent while it is under way
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
//   - A claim has one holder: claim_enter.lua gives it to who comes first, and to another one
//     only after the lease, with a later fence. Hold and End of an older fence change
//     nothing. The solve stays the same, so that a new holder goes on where the old one was.
//   - Claims, like budgets and figures, may be sent twice: an entry is told again that it
//     holds, an end that it ended, and requests are counted once.
//   - Nothing of a shared token is left when it ends. What ends further away than it ever
//     could is over: Redis' clock was set back by more than 10 s.
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
