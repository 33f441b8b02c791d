package pool

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"poold/internal/captcha"
)

// aCall is a call without a wait for a token of the identity A.
func aCall(change func(c *Call)) *Call {
	c := &Call{Name: "c", Nonce: "n", ID: "A", Margin: time.Second, MostTickets: 3}
	if change != nil {
		change(c)
	}
	return c
}

const (
	oneToken  = "RPUSH tokens:A now+60000|o1\nSET token:o1 now-5000|main|5|agent|T1\n"
	aReply    = "SET reply:c token||n|hits|o1|now+60000|now-2000|now-5000|main|5||T1\n"
	twoTokens = oneToken + "RPUSH tokens:A now+90000|o2\nSET token:o2 now-5000|main|5||T2\n"
)

// once runs the take script once, without the loop of a wait; onceAgain does so for a call that has waited before.
func once(c *Call) func(p *Pool) any      { return takeOnce(c, true) }
func onceAgain(c *Call) func(p *Pool) any { return takeOnce(c, false) }

func takeOnce(c *Call, first bool) func(p *Pool) any {
	return func(p *Pool) any {
		token, pause, err := p.takeOnce(context.Background(), c, c.Wait > 0 || c.Task, first)
		if pause > 0 {
			return "waits " + pause.String()
		}
		return taken(token, err)
	}
}

// late delays a call by an hour, by Redis' clock.
func late(call func(p *Pool) any) func(p *Pool) any {
	return func(p *Pool) any {
		ahead := -time.Hour
		p.ahead.Store(&ahead)
		return call(p)
	}
}

// sharing sends two requests with one key, of which the first waits for a second or hangs up before.
func sharing(hangsUp time.Duration) func(p *Pool) any {
	return func(p *Pool) any {
		ctx, stop := context.WithTimeout(context.Background(), hangsUp)
		defer stop()
		second := make(chan error)
		go func() {
			time.Sleep(time.Millisecond)
			_, err := p.Take(context.Background(),
				aCall(func(c *Call) { c.Fingerprint, c.Nonce, c.Wait = "fp", "m", 2*time.Second }))
			second <- err
		}()
		_, err := p.Take(ctx, aCall(func(c *Call) { c.Fingerprint, c.Wait = "fp", time.Second }))
		p.settle()
		return fmt.Sprint(err, ", tickets: ", p.c.Slow.ZCard(context.Background(), p.key("tickets", "A")).Val(), ", ",
			<-second)
	}
}

func withRow(c *Call)   { c.Row = "{}" }
func rated(c *Call)     { c.Rate, c.RatePer = 2, time.Second }
func ofTask(c *Call)    { c.Task = true }
func waiting(c *Call)   { c.Wait = time.Minute }
func keyed(c *Call)     { c.Fingerprint = "fp" }
func keyedWait(c *Call) { waiting(c); keyed(c) }

var tables = map[string][]row{
	"take": {
		{name: "a hit hands out the token that dies first", given: twoTokens, call: once(aCall(nil))},
		{name: "a take from an empty stock is a miss", call: once(aCall(func(c *Call) { c.Row = `{"caller":"qa"}` }))},
		{name: "a waiting call leaves a ticket", call: once(aCall(waiting))},
		{name: "a call whose ticket is the oldest gets the token",
			given: oneToken + "ZADD tickets:A 1 1000|r1|c 2 1000|r2|other\n", call: once(aCall(waiting))},
		{name: "a repeated take gets the same token", given: twoTokens, call: once(aCall(nil)), twice: true},
		{name: "a repeated wait keeps its one ticket", call: once(aCall(waiting)), twice: true},
		{name: "a repeated wait keeps the place of its ticket",
			given: "ZADD tickets:A 1 1000|r1|c\n", call: once(aCall(waiting))},
		{name: "a call that has ended gets nothing", given: oneToken + "SET reply:c ended|||\n", call: once(aCall(nil))},
		{name: "a take whose caller has given up gets nothing", given: oneToken, call: late(once(aCall(nil)))},
		{name: "a full outbox drops the row of a take and counts it",
			given: "XADD outbox:handouts 1-1 a 1\nXADD outbox:handouts 1-2 a 1\nXADD outbox:handouts 1-3 a 1\n",
			call:  once(aCall(withRow))},
		{name: "a hit of a guest counts for all guests",
			given: "RPUSH tokens:guest-A now+60000|o1\nSET token:o1 now-5000|main|5|agent|T1\n",
			call:  once(aCall(func(c *Call) { c.ID = Guest("A") }))},
		{name: "tokens within their margin expire", given: "RPUSH tokens:A now+999|o0\n" + oneToken, call: once(aCall(nil))},
		{name: "a token whose text is gone counts as expired, and the next one is handed out",
			given: "RPUSH tokens:A now+50000|o0\n" + oneToken, call: once(aCall(nil))},
		{name: "a token that is born in the future counts as expired, and the next one is handed out",
			given: "RPUSH tokens:A now+50000|o0\nSET token:o0 now+2000|main|5||T0\n" + oneToken, call: once(aCall(nil))},
		{name: "min_ttl skips tokens that die too soon", given: twoTokens,
			call: once(aCall(func(c *Call) { c.MinTTL = 70 * time.Second }))},
		{name: "a call whose min_ttl no token has waits", given: twoTokens,
			call: once(aCall(func(c *Call) { waiting(c); c.MinTTL = 100 * time.Second }))},
		{name: "the only token is kept for an older ticket", given: oneToken + "ZADD tickets:A now-90000000 1000|r2|other\n",
			call: once(aCall(waiting))},
		{name: "a token that no older ticket needs is handed out",
			given: twoTokens + "ZADD tickets:A 1 1000|r2|other\n", call: once(aCall(nil))},
		{name: "an older ticket that no token suits blocks nobody", given: oneToken + "ZADD tickets:A 1 70000|r2|other\n",
			call: once(aCall(nil))},
		{name: "the ticket of a dead replica is removed, and its token is handed out",
			given: oneToken + "ZADD tickets:A 1 1000|dead|other\n", call: once(aCall(nil))},
		{name: "tickets of dead replicas make room for a new ticket",
			given: "RPUSH tokens:A now+50000|o1\nZADD tickets:A 1 1000|dead|x 2 1000|dead|y 3 70000|r2|z\n",
			call:  once(aCall(func(c *Call) { waiting(c); c.MinTTL = time.Minute }))},
		{name: "a call is refused while too many tickets wait",
			given: "ZADD tickets:A 1 1000|r1|x 2 1000|r1|y 3 1000|r1|z\n", call: once(aCall(waiting))},
		{name: "a waiting call learns that its order failed",
			given: "SET reply:c failed|||{\"bad_parameters\":true,\"reason\":\"bad|parameters\"}\nZADD tickets:A 1 1000|r1|c\n",
			call:  once(aCall(waiting))},
		{name: "a waiting call learns that no order can be placed for it",
			given: "SET reply:c failed|||{\"not_placed\":\"budget\",\"until\":\"2026-01-02T03:04:10Z\"," +
				"\"reason\":\"the|budget\"}\n", call: once(aCall(waiting))},
		{name: "the answer of an Idempotency-Key is kept until the token dies", given: oneToken,
			call: once(aCall(func(c *Call) { c.Fingerprint = "fp"; c.Row = `{"caller":"qa"}` }))},
		{name: "a later request with the Idempotency-Key gets the same token, as a replay",
			given: "SET reply:c token|fp|first|hits|o9|now+9000|now-2000|now-5000|main|5||T9\n", call: once(aCall(keyed))},
		{name: "an Idempotency-Key of another request is a conflict", given: "SET reply:c token|fp|n|hits|o9|now+9000\n",
			call: once(aCall(func(c *Call) { c.Fingerprint = "other" }))},
		{name: "a waiting call with an Idempotency-Key leaves a mark and a ticket", call: once(aCall(keyedWait))},
		{name: "a waiting call with an Idempotency-Key gets its token",
			given: oneToken + "SET reply:c waiting|fp|\nZADD tickets:A 1 1000|r1|c\n", call: once(aCall(keyedWait))},
		{name: "a request that waits at another replica leaves no second ticket",
			given: "SET reply:c waiting|fp|r2\nZADD tickets:A 1 1000|r2|c\n", call: once(aCall(keyedWait))},
		{name: "a request that waited at a dead replica leaves a new ticket",
			given: "SET reply:c waiting|fp|dead\nZADD tickets:A 1 1000|dead|c\n", call: once(aCall(keyedWait))},
		{name: "a waiting request with an Idempotency-Key learns that its order failed",
			given: "SET reply:c failed|||{\"reason\":\"bad\"}\n", call: onceAgain(aCall(keyedWait))},
		{name: "a later request with the Idempotency-Key of a failed one tries again",
			given: "SET reply:c failed|||{\"reason\":\"bad\"}\n", call: once(aCall(keyedWait))},
		{name: "two requests wait with one Idempotency-Key, and the time-out of one leaves their ticket",
			call: sharing(time.Minute)},
		{name: "two requests wait with one Idempotency-Key, and the hang-up of one leaves their ticket",
			call: sharing(300 * time.Millisecond)},
		{name: "a hand-out below the rate passes and is counted", given: oneToken + "LPUSH rate:A now-500 now-100\n",
			call: once(aCall(func(c *Call) { c.Rate, c.RatePer = 3, time.Second }))},
		{name: "a rate keeps the times of as many hand-outs as it needs",
			given: oneToken + "LPUSH rate:A now-9000 now-8000 now-7000\n", call: once(aCall(rated))},
		{name: "a take beyond the rate is refused", given: oneToken + "LPUSH rate:A now-500 now-100\n",
			call: once(aCall(rated))},
		{name: "a waiting call beyond the rate pauses", given: oneToken + "LPUSH rate:A now-500 now-100\n",
			call: once(aCall(func(c *Call) { waiting(c); c.Rate, c.RatePer = 2, time.Second }))},
		{name: "a waiting call is refused if it is beyond the rate when its wait is over",
			given: twoTokens + "LPUSH rate:A now-500\n", call: func(p *Pool) any {
				ctx := context.Background()
				time.AfterFunc(400*time.Millisecond, func() { // another call is faster
					p.c.Slow.LPush(ctx, p.key("rate", "A"), time.Now().UnixMilli())
				})
				return taken(p.Take(ctx, aCall(func(c *Call) { c.Rate, c.RatePer, c.Wait = 1, time.Second, 600*time.Millisecond })))
			}},
		{name: "a task leaves a ticket without a replica", call: once(aCall(ofTask))},
		{name: "a token is kept for a task", given: oneToken + "ZADD tickets:A 1 1000||task\n", call: once(aCall(nil))},
		{name: "a token that expired unread ends its task",
			given: "RPUSH tokens:A now+500|o0\nZADD tickets:A 1 0||c 2 0||d\n", call: once(aCall(ofTask))},
		{name: "a task gets another token than the one that expired unread", given: "RPUSH tokens:A now+500|o0\n" + oneToken +
			"ZADD tickets:A 1 0||c 2 0||d\n", call: once(aCall(ofTask))},
		{name: "a caller's key pays for its token once, also if the take is repeated",
			given: oneToken, call: once(aCall(pays)), twice: true},
		{name: "a caller's key whose money is spent gets nothing, and the next caller wakes", given: oneToken +
			"ZADD tickets:A 1 1000|r1|c 2 1000|r2|next\nHSET money:key:qa:2026-01 02 7\n", call: once(aCall(pays))},
		{name: "a caller's key without a limit pays too", given: oneToken,
			call: once(aCall(func(c *Call) { c.Budget.Scope = "key:qa" }))},
	},
	"stored_answer": {
		{name: "a call that got a token gets it again",
			given: "SET reply:c token|fp|n|hits|o1|now+60000|now-2000|now-5000|main|5||T1\n", call: again},
		{name: "a call whose order failed learns it again",
			given: oneToken + "SET reply:c failed|||{\"reason\":\"bad\"}\n", call: again},
		{name: "a call without an answer gets nothing, also from a full stock", given: oneToken, call: again},
	},
	"cancel": {
		{name: "the token of a caller that left returns to the stock",
			given: aReply + "RPUSH tokens:A now+70000|o2\n", call: cancelled(aCall(nil), "left")},
		{name: "a call whose wait is over is a miss", given: "ZADD tickets:A 1 1000|r1|c\n",
			call: cancelled(aCall(withRow), "missed")},
		{name: "a waiting caller that leaves wakes the next one", given: oneToken +
			"ZADD tickets:A 1 1000|r1|c 2 1000|r2|next 3 1000|r2|third\n", call: cancelled(aCall(nil), "left")},
		{name: "a repeated cancel returns the token once", given: aReply + "RPUSH tokens:A now+50000|o2\n",
			call: cancelled(aCall(nil), "left"), twice: true},
		{name: "a returned token within its margin expires",
			given: "SET reply:c token||n|hits|o1|now+900|now-2000|now-5000|main|5||T1\n", call: cancelled(aCall(nil), "left")},
		{name: "a returned token wakes the caller that can use it",
			given: aReply + "ZADD tickets:A 1 70000|r2|long 2 1000|r2|short 3 1000|r2|late\n",
			call:  cancelled(aCall(withRow), "left")},
		{name: "a returned token is paid back, on the day of its take", given: "HSET money:key:qa:2026-01 01 9 02 9\n" +
			"SET reply:c token||n|hits|o1|now+60000|now-86400000|now-5000|main|5000||T1\n",
			call: cancelled(aCall(pays), "left")},
		{name: "a take that comes after its cancel gets nothing", given: oneToken, call: func(p *Pool) any {
			return fmt.Sprint(cancelled(aCall(nil), "left")(p), "; ", once(aCall(nil))(p))
		}},
		{name: "a cancelled call with an Idempotency-Key keeps its token",
			given: "SET reply:c token|fp|n|hits|o1|now+60000|now-2000|now-5000|main|5||T1\n",
			call:  cancelled(aCall(keyed), "left")},
		{name: "a cancelled call with an Idempotency-Key that waits leaves nothing",
			given: "SET reply:c waiting|fp|r1\nZADD tickets:A 1 1000|r1|c\n", call: cancelled(aCall(keyed), "left")},
		{name: "a cancelled call with an Idempotency-Key leaves the ticket of another replica",
			given: "SET reply:c waiting|fp|r2\nZADD tickets:A 1 1000|r2|c\n", call: cancelled(aCall(keyed), "left")},
	},
	"money": {
		{name: "a caller's key that has money left can pay", given: "HSET money:key:qa:2026-01 01 7 02 6\n", call: affords},
		{name: "a caller's key that has spent its money learns when it can pay again",
			given: "HSET money:key:qa:2026-01 01 1 02 7\n", call: affords},
		{name: "the totals have what a scope has spent",
			given: "ZADD solves:overall now-3600001 x now-3599000 y\nHSET money:overall:2025-12 02 9\n" +
				"HSET money:overall:2026-01 01 7 02 6\n", call: func(p *Pool) any {
				totals, err := p.Totals(context.Background(), ScopeOverall, "none")
				return fmt.Sprint(totals.Spent, err)
			}},
	},
	"guest": {
		{name: "a request for a guest is admitted and counted",
			given: "ZADD rate:guests now-9000 old now-500 x\n", call: admitted},
		{name: "a repeated request for a guest counts once",
			given: "ZADD rate:guests now-9000 old now-500 x\n", call: admitted, twice: true},
		{name: "a request beyond the rate of all guests is refused",
			given: "ZADD rate:guests now-500 x now-300 y\n", call: admitted},
		{name: "a request for a braked identity is refused",
			given: "HSET brake:guest-A next now+3000 every 5000 kind failed reason no\n", call: admitted},
		{name: "a request for an identity whose brake ends soon is admitted",
			given: "HSET brake:guest-A next now+2000 every 5000 kind failed reason no\n", call: admitted},
		{name: "a request for a braked identity with a token is admitted",
			given: "HSET brake:guest-A next now+3000 every 5000 kind failed reason no\nRPUSH tokens:guest-A now+60000|o1\n",
			call:  admitted},
		{name: "a repeated request that waits is admitted beyond the rate, because it buys nothing",
			given: "ZADD rate:guests now-500 x now-300 y\nSET reply:c waiting|fp|r1\n", call: admitted},
		{name: "a repeated request that failed counts as a new one",
			given: "ZADD rate:guests now-500 x now-300 y\nSET reply:c failed|||{}\n", call: admitted},
		{name: "callers that nothing serves are refused, the latest first",
			given: "ZADD tickets:guest-A 1 1000|r1|x 2 1000||y 3 1000|r2|z 4 1000|r2|late\nRPUSH tokens:guest-A now+60000|o1\n" +
				"ZADD inflight:guest-A now+9 o\n",
			call: refused(&FailedError{NotPlaced: ReasonBudget, Until: time.UnixMilli(5), Reason: "no|budget"})},
		{name: "no caller is refused while tokens and orders serve all",
			given: "ZADD tickets:guest-A 1 1000|r1|x\nRPUSH tokens:guest-A now+60000|o1\nZADD inflight:guest-A now+9 o\n",
			call:  refused(&FailedError{})},
		{name: "one call is refused, and the others stay", given: "ZADD tickets:guest-A 1 1000|r1|x 2 1000|r1|c\n",
			call: failedOne},
		{name: "one call is refused once, even if an order may serve it",
			given: "ZADD tickets:guest-A 1 1000|r1|x 2 1000|r1|c\nZADD inflight:guest-A now+9 o\n",
			call:  failedOne, twice: true},
	},
	"tasks": {
		{name: "a task is added, and tasks whose time is over are forgotten",
			given: "ZADD client_tasks:" + digest("qa") + " now-900001 old now-900000 x\n", call: added("n")},
		{name: "a repeated submit adds its task once", call: added("n"), twice: true},
		{name: "a task with the name of another one is refused", given: "HSET client_task:c nonce m\n", call: added("n")},
		{name: "a task is refused if its caller has too many unfinished ones",
			given: "ZADD client_tasks:" + digest("qa") + " now-899999 x now-1 y\n", call: added("n")},
		{name: "the first poll after the token ends the task, also if it is repeated",
			given: aTask, call: endedTask("o1", "p"), twice: true},
		{name: "a later poll learns that an earlier one ended the task",
			given: aTask + "HSET client_task:c ended o order o1\n", call: endedTask("o1", "p")},
		{name: "a poll ends a task that failed", given: aTask, call: endedTask("", "p")},
		{name: "a poll of a task whose time is over leaves nothing", call: endedTask("o1", "p")},
		{name: "a task is read with its end", given: aTask + "HSET client_task:c ended p order o1\n", call: readTask},
		{name: "a task that nobody submitted is not found", call: readTask},
		{name: "a task whose id no caller has got is dropped", given: aTask,
			call: func(p *Pool) any { return p.DropTask(context.Background(), &ClientTask{Name: "c", Caller: "qa"}) }},
	},
	"decide": {
		{name: "an identity that needs tokens is due again in 2 s, also without an entry", call: decides(2)},
		{name: "an identity with enough tokens is due again after the period", given: twoTokens +
			"RPUSH tokens:A now+95000|o3\nZADD due now-1 A\n", call: decides(2)},
		{name: "an identity is due again when its first token is too old",
			given: "RPUSH tokens:A now+31000|o1 now+90000|o2\n", call: decides(2)},
		{name: "an identity is due again in a second if its period is that short", call: func(p *Pool) any {
			_, err := p.Decide(context.Background(), Query{ID: "A", Want: 2, Recheck: time.Second})
			return err
		}},
		{name: "an identity is decided before its time, and its old tokens expire",
			given: "RPUSH tokens:A now+900|o0\n" + twoTokens +
				"ZADD due now+5000 A\nHSET stats:A hits 3 leads 9000,8000 reports 1,0 failures now-9000|no,now-9900|bad\n",
			call: decides(9)},
		{name: "orders and tickets count", given: oneToken +
			"ZADD inflight:A now+30000 o8 now+40000 o9\nZADD tickets:A 1767323045000001 1000|r1|x\n", call: decides(2)},
		{name: "orders at a provider that is stuck do not count", given: oneToken + stuckOrders, call: stuck(decides(2))},
		{name: "tickets of dead replicas do not count",
			given: "ZADD tickets:A 1767323045000001 1000|dead|x 1767323045000002 1000|r1|y 1767323045000003 1000||z\n",
			call:  decides(0)},
		{name: "a task that nobody can poll any more is no demand",
			given: "ZADD tickets:A 1767322144999999 0||c 1767322145000000 0||d\n", call: decides(0)},
		{name: "a decision has the brake and the pause",
			given: "HSET brake:A kind refused reason no since now-1000 count 9 failed_in_a_row 3 every 5000 next now+99000 " +
				"paused because resumes now+7000\n", call: decides(0)},
		{name: "a decision does not have a pause that has ended",
			given: "HSET brake:A paused because resumes now-1\n", call: decides(0)},
		{name: "a read changes nothing", given: "RPUSH tokens:A now+900|o0 now+5000|o4\n" + twoTokens +
			"ZADD inflight:A now+30000 o7 now+30001 o8 now+30002 o9\nHSET order:o7 state unknown placed now-7000\n" +
			"HSET order:o8 state bought placed now-8000\nHSET order:o9 state submitting placed now-9000\n", call: reads(2)},
		{name: "a read counts tokens that are too old as expired, but leaves them",
			given: "RPUSH tokens:A now+900|o0 now+950|o4\n", call: reads(2)},
		{name: "a read counts orders at a provider that is stuck", given: oneToken + stuckOrders, call: stuck(reads(2))},
	},
	"due": {
		{name: "the due identities are handed to one replica", given: "ZADD due now-5 A now-4 B now-3 C now+1 D\n",
			call: dueTwo},
		{name: "the first identity of an obstacle that may have ended is due",
			given: "ZADD due now+20000 A now+20000 B\nZADD queue:main 5 B 6 A\n" +
				"ZADD obstacles now-1 main now-1 empty now+1 later\nZADD queue:later 5 C\n", call: dueTwo},
		{name: "a pass of the targets keeps the times of known ones, and new ones are due", given: "ZADD due now+20000 A\n",
			call: func(p *Pool) any { return p.SetDue(context.Background(), []captcha.ID{"A", "B"}) }},
	},
	"decided": {
		{name: "a decision is stored with an earlier time and a status", given: "ZADD due now+9000 A\n",
			call: func(p *Pool) any { return p.Decided(context.Background(), "A", 3*time.Second, "{}") }},
		{name: "a decision without news changes nothing", given: "ZADD due now+9000 A\nHSET stats:A status {}\n",
			call: func(p *Pool) any { return p.Decided(context.Background(), "A", -1, "") }},
		{name: "a decision is stored with the next one due at once", given: "ZADD due now+2000 A\n",
			call: func(p *Pool) any { return p.Decided(context.Background(), "A", 0, "") }},
		{name: "an unknown identity that nobody needs is forgotten", given: "ZADD due now+9000 A\n", call: disowned},
		{name: "an unknown identity with a token is due when it expires",
			given: "ZADD due now+9000 A\nRPUSH tokens:A now-1|o0 now+5000|o1\n", call: disowned},
		{name: "an unknown identity with a caller stays due",
			given: "ZADD due now+9000 A\nZADD tickets:A 1767323045000001 1000||c\n", call: disowned},
		{name: "an unknown identity with callers of dead replicas is forgotten",
			given: "ZADD due now+9000 A\nZADD tickets:A 1767323045000001 1000|dead|c\n", call: disowned},
	},
	"counters": {
		{name: "the first event of an identity notes its counters", call: missedAfter(0), twice: true},
		{name: "the first event of an hour notes the counters of that hour",
			given: "HSET stats:A hour 490923 hits 7 spent 9 leads 3\nPEXPIRE stats:A 9000000\nHSET periods:A hours " +
				hours(25) + " days " + hours(8) + "\n", call: missedAfter(time.Hour)},
		{name: "the first event of a day notes the counters of that day too",
			given: "HSET stats:A hour 490919 hits 7\nHSET periods:A hours " + hours(25) +
				" days " + hours(8) + "\n", call: missedAfter(0)},
		{name: "an event notes nothing if Redis' clock went back", given: "HSET stats:A hour 490924\n", call: missedAfter(0)},
	},
	"survey": {
		{name: "the minutes and days of two identities are read", given: oneToken +
			"HSET stats:A hits 30 left 2 spent 700\nZADD solves:A now-3600000 x now-3599999 y now-86399999 z\n" +
			"HSET minutes:A:490922 hits5 4 hits4 3 waited5 2 left59 1\n" +
			"HSET minutes:A:490923 hits4 8 hits0 9 missed1 0\nHSET periods:A days " + days +
			"\nHSET minutes:guests:490923 bought1 1\n", call: func(p *Pool) any {
			list, err := p.Stocks(context.Background(), []Query{{ID: "A", Margin: time.Second}, {ID: Guest("A")}})
			return fmt.Sprintf("%d fresh, hour %d day %d, minutes %s days %s; guest: minutes %s days %s %v", list[0].Fresh,
				list[0].SolvesHour, list[0].SolvesDay, shown(list[0].Minutes), shown(list[0].Days), shown(list[1].Minutes),
				shown(list[1].Days), err)
		}},
		{name: "the hours of a day are read", given: "HSET stats:A hits 30\nHSET periods:A hours " + days + "\n",
			call: func(p *Pool) any {
				list, err := p.Hours(context.Background(), "A")
				return fmt.Sprint(shown(list), err)
			}},
		{name: "the hours of a guest are those of all guests",
			given: "HSET stats:guests hits 30\nHSET periods:guests hours 490923|1|0|0|0|0|0|0|0|0|0\n", call: func(p *Pool) any {
				list, err := p.Hours(context.Background(), Guest("A"))
				return fmt.Sprint(shown(list), err)
			}},
		{name: "the totals sum up all guests",
			given: "ZADD due now+1 A now+2 guest-A now+3 guest-B\nRPUSH tokens:A now+9|o1\n" +
				"RPUSH tokens:guest-A now-1|o2 now+1|o3\nRPUSH tokens:guest-B now+1|o4\n" +
				"ZADD inflight:guest-B now+1 o5 now+2 o6 now+3 o7\nHSET order:o5 state bought\nHSET order:o6 state unknown\n" +
				"HSET order:o7 state placed\nZADD tickets:guest-A 1 1000|r1|x\nHSET stats:guests hits 5\n",
			call: func(p *Pool) any {
				totals, err := p.Totals(context.Background())
				g := totals.Guests
				return fmt.Sprintf("%d guests, %d fresh, %d orders, %d bought, %d waiting, %d hits %v", g.Guests, g.Fresh, g.Orders,
					g.BoughtInFlight, g.Waiting, g.Counters.Hits, err)
			}},
	},
	"learned": {
		{name: "a first learned state is version 1", call: learns},
		{name: "a next learned state replaces the old one",
			given: "HSET stats:A learned_version 7\nSET learned:A old\n", call: learns},
	},
	"retry": {
		{name: "a retry lets a failing identity try at once", given: "ZADD due now+9000 A\n" +
			"HSET brake:A kind failed since now-9 every 5000 next now+5000\n", call: retried},
		{name: "a retry leaves an identity without failures",
			given: "ZADD due now+9000 A\nHSET brake:A paused why\n", call: retried},
	},
	"place": {
		{name: "an order is placed", call: placed(nil)},
		{name: "a repeated placing changes nothing", call: placed(nil), twice: true},
		{name: "a late repetition brings no ended order back", given: "HSET order:o state ended\n", call: placed(nil)},
		{name: "a placing brings its replica back that was buried meanwhile", given: "ZREM replicas r1\n", call: placed(nil)},
		{name: "no order is placed if tokens and orders suffice",
			given: oneToken + "ZADD inflight:A now+9 x\nZADD queue:main 5 A\n", call: placed(nil)},
		{name: "a ticket is demand for one more token", given: twoTokens + "ZADD tickets:A 1 1000|r1|x\n", call: placed(nil)},
		{name: "tokens that die within the horizon do not count",
			given: "RPUSH tokens:A now+20999|o1\nZADD inflight:A now+9 x\n", call: placed(nil)},
		{name: "orders at a provider that is stuck are replaced", given: oneToken + stuckOrders, call: stuck(placed(nil))},
		{name: "an order that is not for the stock ignores the tokens, and gets no turn",
			given: twoTokens + "HSET brake:k next now+3000 every 5000 reason down\n",
			call:  placed(func(o *Order) { o.Unpooled = true })},
		{name: "no order is placed for a paused identity", given: "HSET brake:A paused why resumes 0\n", call: placed(nil)},
		{name: "an order is placed after the end of a pause",
			given: "HSET brake:A paused why resumes now-1\n", call: placed(nil)},
		{name: "no order is placed while the identity has a brake",
			given: "HSET brake:A next now+3000 every 5000 reason no\n", call: placed(nil)},
		{name: "an order is placed as the probe of a braked identity",
			given: "HSET brake:A since now-9000 next now-1 every 5000 failed_in_a_row 13 reason no\n", call: placed(nil)},
		{name: "a probe that may be the fifteenth failure makes the next one wait longer",
			given: "HSET brake:A since now-9000 next now-1 every 5000 failed_in_a_row 13\nZADD inflight:A now+9 x\n",
			call:  placed(nil)},
		{name: "a brake lasts no longer than its interval, or a minute",
			given: "HSET brake:A next now+3600000 every 5000 reason no\n", call: placed(nil)},
		{name: "no order is placed while the account has a brake, and the identity gets a turn",
			given: "HSET brake:k kind busy next now+3000 every 5000 reason down\n", call: placed(nil)},
		{name: "an identity keeps its turn at an account with a brake, and callers come first",
			given: "HSET brake:k next now+3000 every 5000 reason down\nZADD tickets:A 1 1000|r1|x\n" +
				"ZADD queue:main now-9000 A\nZADD obstacles now+9000 main\n", call: placed(nil)},
		{name: "an order is placed as the probe of a braked account",
			given: "HSET brake:k next now-1 every 5000 reason down\n", call: placed(nil)},
		{name: "no order is placed while all permits are in use, and the identity gets a turn",
			given: "ZADD permits:main now+9 x now+9 y now+9 z\n", call: placed(nil)},
		{name: "an order uses up the turn of its identity", given: "SET turn:A now-8000\n", call: placed(nil)},
		{name: "an identity that had its turn in vain keeps its place",
			given: "ZADD permits:main now+9 x now+9 y now+9 z\nSET turn:A now-8000\n", call: placed(nil)},
		{name: "an order is followed by the turn of the next identity",
			given: "ZADD permits:main now+9 x\nZADD queue:main 4 A 5 B\n", call: placed(nil)},
		{name: "an order is followed by no turn if no permit is left",
			given: "ZADD permits:main now+9 x now+9 y\nZADD queue:main 5 B\n", call: placed(nil)},
		{name: "an order counts in a budget of orders, and those of the day before do not",
			given: "ZADD solves:overall now-86400001 old now-3600000 x\n", call: placed(limited)},
		{name: "no order is placed while the budget of an hour is used up",
			given: "ZADD solves:overall now-1000 x now-500 y\n", call: placed(limited)},
		{name: "no order is placed while the budget of a day is used up",
			given: "ZADD solves:overall now-80000000 x now-70000000 y now-60000000 z\n", call: placed(limited)},
		{name: "a target whose own budget is used up gets no turn", given: "ZADD solves:A now-1000 x\n",
			call: placed(func(o *Order) { o.Budgets = []Budget{{Scope: "A", PerHour: 1}} })},
		{name: "an order is placed whose price uses up the money of the day, and counts in it",
			given: "HSET money:overall:2026-01 01 8000 02 7010\nHSET money:overall:2025-12 02 8000\n",
			call:  placed(inMoney(10000, 20000))},
		{name: "no order is placed whose price exceeds the money of the day",
			given: "HSET money:overall:2026-01 02 7011\n", call: placed(inMoney(10000, 0))},
		{name: "no order is placed whose price exceeds the money of the month",
			given: "HSET money:overall:2026-01 01 7010 02 1\n", call: placed(inMoney(10000, 10000))},
		{name: "a refusal names, of two full limits, the one that opens last",
			given: "ZADD solves:overall now-1000 x now-500 y\nHSET money:overall:2026-01 02 7011\n",
			call: placed(func(o *Order) {
				o.Price, o.Budgets = 3_000_000, []Budget{{Scope: ScopeOverall, PerHour: 2, MicrosPerDay: 10000}}
			})},
		{name: "a target whose own money is spent gets no turn", given: "HSET money:A:2026-01 02 1\n",
			call: placed(func(o *Order) { o.Price, o.Budgets = 1, []Budget{{Scope: "A", MicrosPerDay: 1}} })},
		{name: "an order without a price counts in no budget of money",
			call: placed(func(o *Order) { inMoney(1, 0)(o); o.Price = 0 })},
	},
	"begin": {
		{name: "the owner of a placed order may submit it", given: "HSET order:o owner r1 state placed\n", call: begun("n")},
		{name: "the owner may repeat its begin with the same nonce",
			given: "HSET order:o owner r1 state submitting submit n\n", call: begun("n")},
		{name: "a second submit with another nonce is refused",
			given: "HSET order:o owner r1 state submitting submit m\n", call: begun("n")},
		{name: "a submit of a replica that does not own the order is refused",
			given: "HSET order:o owner r2 state placed\n", call: begun("n")},
		{name: "a submit of an ended order is refused", given: "HSET order:o owner r1 state ended\n", call: begun("n")},
	},
	"bought": {
		{name: "an order whose task is known is bought", given: inSubmit + "SADD owned:r1 o\n", call: boughtWith("7")},
		{name: "an order whose submit had no answer is unknown", given: inSubmit + "SADD owned:r1 o\n", call: boughtWith("")},
		{name: "a repeated Bought counts once", given: inSubmit + "SADD owned:r1 o\n", call: boughtWith("7"), twice: true},
		{name: "an accepted submit proves the account",
			given: "HSET order:o owner r1 state submitting account main submitted now-700\nHSET brake:k kind refused count 3\n",
			call:  boughtWith("7")},
		{name: "an accepted submit whose start is not known proves the account",
			given: "HSET order:o owner r1 state placed account main\nHSET brake:k kind outage\n", call: boughtWith("7")},
		{name: "an accepted submit keeps polls braked", given: inSubmit + "HSET brake:k kind polls\n", call: boughtWith("7")},
		{name: "an accepted submit leaves a brake that only a token ends",
			given: inSubmit + "HSET brake:k kind hangs\n", call: boughtWith("7")},
		{name: "an unknown order counts for its time-out",
			given: inSubmit + "ZADD deadlines now+90000 o\nZADD permits:main now+90000 o\n" +
				"ZADD inflight:A now+90000 o\n", call: boughtWith("")},
		{name: "whoever knows the task becomes the owner", given: "HSET order:o owner r2 state unknown\nSADD owned:r2 o\n",
			call: boughtWith("7")},
		{name: "a replica that was buried meanwhile and knows the task becomes the owner",
			given: "HSET order:o owner r2 state unknown\nZREM replicas r1\n", call: boughtWith("7")},
		{name: "a submit without an answer changes nothing for another owner",
			given: "HSET order:o owner r2 state submitting\n", call: boughtWith("")},
		{name: "a submit without an answer changes nothing if the task is known",
			given: "HSET order:o owner r1 state bought task 7\n", call: boughtWith("")},
		{name: "a task of another order is refused", given: inSubmit + "SET task:main:7 other\n", call: boughtWith("7")},
		{name: "a task of an ended order changes nothing", given: "HSET order:o state ended\n", call: boughtWith("7")},
	},
	"end": {
		{name: "a token lands", given: anOrder, call: ended(nil)},
		{name: "a bought order fails, and gives its place in the budget back", given: anOrder, call: ended(how(Failed))},
		{name: "an order is lost, and the next identity has its turn",
			given: anOrder + "ZADD queue:main 5 B\n", call: ended(how(Lost))},
		{name: "an order whose submit is refused was not bought", given: aSubmit, call: ended(how(Refused))},
		{name: "an order whose parameters are refused brakes its identity", given: aSubmit, call: ended(how(BadParameters))},
		{name: "an order for which the service has no slot brakes the account for a second",
			given: aSubmit, call: ended(how(Busy))},
		{name: "a fault of the account ends the order, its brake is set elsewhere", given: aSubmit, call: ended(how(Fault))},
		{name: "an order that was not submitted is stopped", given: aPlacedOrder, call: ended(how(Stopped))},
		{name: "an order past its deadline that was not submitted is stopped", given: aPlacedOrder, call: ended(how(Late))},
		{name: "an order past its deadline that may have been submitted is lost", given: aSubmit, call: ended(how(Late))},
		{name: "a repeated end changes nothing", given: anOrder, call: ended(nil), twice: true},
		{name: "an ended order does not end again", given: "HSET order:o state ended\n", call: ended(nil)},
		{name: "a replica that does not own the order cannot end it",
			given: strings.Replace(anOrder, "owner r1", "owner r2", 1), call: ended(nil)},
		{name: "a callback comes before the task is known", given: aSubmit, call: ended(func(e *End) { e.Anyone = true })},
		{name: "a callback ends an unknown order", given: anUnknownOrder, call: ended(func(e *End) { e.Anyone = true })},
		{name: "an unknown order is refused after all, and was not bought", given: anUnknownOrder, call: ended(how(Refused))},
		{name: "an order whose parameters a poll refuses has been bought", given: anOrder, call: ended(how(BadParameters))},
		{name: "a bought order for which the service has no slot was not bought after all",
			given: anOrder, call: ended(how(Busy))},
		{name: "a brake of no slot does not replace a fault of the account", given: anOrder +
			"HSET brake:k kind account reason money since now-9 every 60000 next now+60000\n", call: ended(how(Busy))},
		{name: "a failed order that may still cost something counts as spent", given: anOrder,
			call: ended(func(e *End) { e.Outcome, e.Costs = Failed, true })},
		{name: "a refused order gives its price back, on the day of its placing",
			given: "HSET order:o id A account main owner r1 state submitting placed now-11046000 price 2989001\n" +
				"HSET money:overall:2026-01 01 2990 02 7\nZADD solves:overall now-9 o\n", call: func(p *Pool) any {
				o := theOrder()
				inMoney(10000, 0)(o)
				return endOf(p.End(context.Background(), o, &End{Outcome: Refused}))
			}},
		{name: "a token that dies before others of the stock is inserted before them",
			given: anOrder + "RPUSH tokens:A now+100000|o5 now+120000|o6\n", call: ended(nil)},
		{name: "a token that dies first of all is inserted once at the front", given: anOrder +
			"RPUSH tokens:A now+120000|o5 now+130000|o6\n", call: ended(nil)},
		{name: "a token that comes too late for its margin is discarded", given: anOrder,
			call: ended(func(e *End) { e.Lifetime = 11 * time.Second })},
		{name: "an order whose text was sold before ends as repeated",
			given: anOrder + "SET value:A:" + digest("T") + " other\n",
			call:  ended(nil)},
		{name: "a token wakes the oldest caller of a live replica",
			given: anOrder + "ZADD tickets:A 1 1000|dead|x 2 1000|r2|y 3 1000|r1|z\n", call: ended(nil)},
		{name: "a caller learns that its order failed", given: anOrder +
			"ZADD tickets:A 1 1000|r1|x 2 1000|r2|y\nZADD inflight:A now+9 other\n", call: ended(how(Failed), answers(false))},
		{name: "a caller whom another order serves waits on after a failure", given: anOrder +
			"ZADD tickets:A 1 1000|r1|x\nZADD inflight:A now+9 other\n", call: ended(how(Failed), answers(false))},
		{name: "a caller learns that the text was sold before", given: anOrder + "ZADD tickets:A 1 1000|r1|x\nSET value:A:" +
			digest("T") + " other\n", call: ended(answers(false))},
		{name: "all callers learn that the parameters are refused", given: aSubmit +
			"ZADD tickets:A 1 1000|r1|x 2 1000||y\nZADD inflight:A now+9 other\n",
			call: ended(how(BadParameters), answers(true))},
		{name: "the eighth failure begins the identity's brake",
			given: anOrder + "HSET brake:A count 7 kind failed reason old\n", call: ended(how(Failed))},
		{name: "the third refusal brakes the identity, and the twentieth the account", given: aSubmit +
			"HSET brake:A count 6 kind refused\nHSET brake:k count 19 kind refused\n", call: ended(how(Refused))},
		{name: "a fourteenth failure with an order in flight makes the next probe wait longer", given: aSubmit +
			"HSET brake:A kind refused since now-9000 count 39 every 5000 next now+4000 failed_in_a_row 13\n" +
			"ZADD inflight:A now+9 x\n", call: ended(how(Refused))},
		{name: "a solve ends the identity's brake but not its pause", given: anOrder +
			"HSET brake:A kind failed reason no since now-9 count 8 every 5000 next now+9 paused why resumes 0\n",
			call: ended(nil)},
		{name: "a probe with refused parameters doubles the interval of the brake", given: aSubmit + badBrake +
			"since now-60000 count 8 every 60000 next now-1\n", call: ended(how(BadParameters))},
		{name: "a probe with refused parameters lengthens the interval to an hour at most", given: aSubmit + badBrake +
			"since now-90000 count 8 every 3000000 next now-1\n", call: ended(how(BadParameters))},
		{name: "an order with refused parameters from before the brake doubles nothing", given: aSubmit + badBrake +
			"since now-5 count 8 every 60000 next now+59995\n", call: ended(how(BadParameters))},
		{name: "a token of an order from before the brake of refused parameters leaves it", given: anOrder + badBrake +
			"since now-5 count 8 every 60000 next now+59995 reason bad\n", call: ended(nil)},
		{name: "a token of an order from after the brake of refused parameters ends it", given: anOrder + badBrake +
			"since now-60000 count 8 every 60000 next now-1 reason bad\n", call: ended(nil)},
		{name: "a failure of an order from before the brake of refused parameters leaves it", given: anOrder + badBrake +
			"since now-5 count 8 every 60000 next now+59995 reason bad\n", call: ended(how(Failed))},
		{name: "a failure of an order from after the brake of refused parameters replaces it", given: anOrder + badBrake +
			"since now-60000 count 8 every 60000 next now-1 reason bad\n", call: ended(how(Failed))},
		{name: "a compared provider solves its first order, and its sums begin",
			given: anOrder, call: ended(compared), twice: true},
		{name: "the sums of a compared provider fade with later outcomes and with the time", given: anOrder + someSums,
			call: ended(how(Failed), compared)},
		{name: "the sums of a compared provider do not grow if Redis' clock went back", given: anOrder +
			"HSET outcomes:main:turnstile at now+9000 recent 7\n", call: ended(how(Lost), compared)},
		{name: "a token that comes too late for its margin is solved in the sums", given: anOrder,
			call: ended(compared, func(e *End) { e.Lifetime = 11 * time.Second })},
		{name: "an order without a slot at the service leaves the sums", given: aSubmit, call: ended(how(Busy), compared)},
		{name: "a fault of the account leaves the sums", given: aSubmit, call: ended(how(Fault), compared)},
		{name: "an order that was not submitted leaves the sums", given: aPlacedOrder, call: ended(how(Stopped), compared)},
		{name: "a compared provider is avoided after it refused the parameters", given: anOrder,
			call: ended(how(BadParameters), compared)},
		{name: "a compared provider whose order begins a brake is avoided",
			given: anOrder + "HSET brake:A count 7 kind failed\n", call: ended(how(Failed), compared)},
		{name: "refused parameters are no brake, and no caller learns them, while another provider is left",
			given: anOrder + "ZADD tickets:A 1 1000|r1|x\n", call: ended(how(BadParameters), compared, oneOther, answers(true))},
		{name: "refused parameters of an order placed before the avoidance are no brake",
			given: anOrder + "HSET brake:A avoid:main now+599999\n", call: ended(how(BadParameters), compared, oneOther)},
		{name: "refused parameters brake the identity if an avoided provider was asked again",
			given: anOrder + "HSET brake:A avoid:main now+9\n", call: ended(how(BadParameters), compared, oneOther)},
		{name: "refused parameters brake the identity if all other providers are avoided",
			given: anOrder + "HSET brake:A avoid:other now+9\n", call: ended(how(BadParameters), compared, oneOther)},
		{name: "an avoidance that is over does not count", given: anOrder +
			"HSET brake:A avoid:other now-9 avoid:main now-9\n", call: ended(how(BadParameters), compared, oneOther)},
		{name: "an avoided provider that solves a later order is avoided no more",
			given: anOrder + "HSET brake:A avoid:main now+589999 avoid:other now+9\n", call: ended()},
		{name: "an avoided provider that solves an order placed before is still avoided",
			given: anOrder + "HSET brake:A avoid:main now+590000\n", call: ended()},
	},
	"outbox": {
		{name: "the oldest rows are read", given: twoRows + oneRow, call: read(2)},
		{name: "rows that are done are deleted, also if this is repeated",
			given: twoRows + oneRow + aHandout + "SET sender r1\n",
			call:  sent("ends 1-1", "ends 1-2", "handouts 1-9"), twice: true},
		{name: "a read has half of its rows from each stream", given: twoRows + oneRow + aHandout, call: read(2)},
		{name: "a read has more rows of one stream if the other has few", given: twoRows + aHandout, call: read(9)},
		{name: "the sender may read the same rows again", given: twoRows, call: read(2), twice: true},
		{name: "a replica reads nothing while another one is sending", given: twoRows + "SET sender r2\n", call: read(2)},
		{name: "a read of an empty outbox makes no sender", call: read(2)},
		{name: "rows that are done too late are deleted, and the new sender stays",
			given: twoRows + "SET sender r2\n", call: sent("ends 1-1")},
		{name: "a sender that could send nothing leaves the rows", given: twoRows + "SET sender r1\n", call: sent()},
		{name: "a shared token leaves a row", call: func(p *Pool) any {
			return p.Shared(context.Background(), &Token{Order: "o", Source: "shared"}, "{}")
		}},
		{name: "a token that was bought for the first of its sharers leaves a row with its price", call: func(p *Pool) any {
			return p.Shared(context.Background(), &Token{Order: "o", Source: "solve", Price: 5}, "{}")
		}},
		{name: "a token from the stock for the first of its sharers leaves a row of a hit",
			call: func(p *Pool) any { return p.Shared(context.Background(), &Token{Order: "o", Source: FromPool}, "{}") }},
		{name: "the totals have the rows that wait and those that found no room",
			given: twoRows + aHandout + "HSET outbox:dropped ends 7 handouts 1\n", call: func(p *Pool) any {
				totals, err := p.Totals(context.Background())
				return fmt.Sprint(totals.Rows, totals.DroppedRows, err)
			}},
	},
	"beat": {
		{name: "a beat returns the orders past their deadline",
			given: "ZADD deadlines now-5 o1 now-0 o2 now+1 o3\n", call: beaten},
		{name: "a replica takes over the orders of a dead one",
			given: "ZADD replicas now-6000 dead now-1000 r1\nSADD owned:dead o1 o2 o3\nHSET order:o1 owner dead state bought\n" +
				"HSET order:o3 state ended\nSADD owned:r1 o9\n", call: beaten},
		{name: "a replica's first beat judges nobody",
			given: "ZADD replicas now-6000 dead\nZREM replicas r1\nSADD owned:dead o1\nHSET order:o1 owner dead state bought\n",
			call:  beaten},
		{name: "a replica that was away judges nobody",
			given: "ZADD replicas now-6000 dead now-4000 r1\nSADD owned:dead o1\nHSET order:o1 owner dead state bought\n",
			call:  beaten},
	},
	"brake": {
		{name: "a fault of the account sets its brake", call: braked(BrakeAccount, time.Second)},
		{name: "a repeated fault of the account keeps its start",
			given: "HSET brake:k kind account since now-9000 every 5000 next now-1\n", call: braked(BrakeAccount, time.Second)},
		{name: "a fault from before a proof sets no brake", given: "HSET brake:k up now-500\n",
			call: braked(BrakeAccount, time.Second)},
		{name: "a fault sets a brake in spite of a proof in the future",
			given: "HSET brake:k up now+500\n", call: braked(BrakeAccount, time.Second)},
		{name: "an outage does not replace the brake of a fault of the account",
			given: "HSET brake:k kind account since now-9000 every 5000 next now-1\n", call: braked(BrakeOutage, 0)},
		{name: "a service without a slot does not replace the brake of a fault of the account",
			given: "HSET brake:k kind account since now-9000 every 5000 next now-1\n", call: braked(string(Busy), 0)},
		{name: "a service without a slot does not replace the brake of an outage",
			given: "HSET brake:k kind outage since now-9000 every 5000 next now-1\n", call: braked(string(Busy), 0)},
		{name: "a service without a slot does not replace the brake of polls",
			given: "HSET brake:k kind polls since now-9000 every 5000 next now-1\n", call: braked(string(Busy), 0)},
		{name: "a service without a slot does not replace the brake of a service without tokens",
			given: "HSET brake:k kind hangs since now-9000 every 5000 next now-1\n", call: braked(string(Busy), 0)},
		{name: "a proof ends the account's brake and wakes who waits",
			given: "HSET brake:k kind account since now-9000 every 5000 next now+1\n", call: lifted(time.Second)},
		{name: "a proof from before the fault leaves the account's brake",
			given: "HSET brake:k kind account since now-900 every 5000 next now+1\n", call: lifted(time.Second)},
		{name: "a retry of a braked account makes its probe due",
			given: "HSET brake:k kind account since now-900 every 5000 next now+1\n", call: probed},
		{name: "a retry of an account without a brake changes nothing", given: "HSET brake:k up 5\n", call: probed},
	},
	"pause": {
		{name: "an operator pauses an identity with a reason and an end",
			given: "HSET brake:A count 3\nPEXPIRE brake:A 5000\n",
			call:  func(p *Pool) any { return p.Pause(context.Background(), "A", "works", time.Minute) }},
		{name: "an operator pauses an identity without a reason and without an end",
			call: func(p *Pool) any { return p.Pause(context.Background(), "A", " ", 0) }},
		{name: "a resume ends the pause, and lets the identity try at once",
			given: "HSET brake:A paused works resumes 0 next now+9999 since now-5 every 60000\n", call: resumed},
		{name: "a resume lets all providers try", given: "HSET brake:A avoid:main now+9 avoid:other now+9\n", call: resumed},
	},
	"flush": {
		{name: "a flush drops all tokens of an identity", given: twoTokens, call: flushed},
		{name: "a flush of an empty stock changes nothing", call: flushed},
	},
	"report": {
		{name: "a good report counts once, also if it is repeated",
			given: "SET sale:o A|main|7|now-5000|\nPEXPIRE sale:o 99000\n", call: reported(true, "n"), twice: true},
		{name: "a bad report is listed before the earlier ones",
			given: "SET sale:o A|main|7|now-5000|\nHSET stats:A reports 1,1\n", call: reported(false, "n")},
		{name: "a report on the token of a guest counts for all guests",
			given: "SET sale:o guest-A|main|7|now-5000|\n", call: reported(true, "n")},
		{name: "a report on a compared provider counts in its sums",
			given: "SET sale:o A|main|7|now-5000|turnstile\n" + someSums, call: reported(false, "n"), twice: true},
		{name: "a second equal report of the caller is known as the same",
			given: "SET sale:o A|main|7|now-5000||" + saidGood + "\n", call: reported(true, "n")},
		{name: "a report with another outcome is refused", given: "SET sale:o A|main|7|now-5000||" + saidGood + "\n",
			call: reported(false, "n")},
		{name: "a report of another caller is refused",
			given: "SET sale:o A|main|7|now-5000||1other\n", call: reported(true, "n")},
		{name: "a report for another identity finds no token", given: "SET sale:o B|main|7|now-5000|\n",
			call: reported(true, "n")},
		{name: "a report on an unknown token finds no token", call: reported(true, "n")},
	},
}

const (
	twoRows = "XADD outbox:ends 1-1 at now-9000 kind active order o row {}\n" +
		"XADD outbox:ends 1-2 at now-5000 kind solved order o row {1}\n"
	aHandout = "XADD outbox:handouts 1-9 at now-1000 kind hits order o row {3} price 5\n"
	oneRow   = "XADD outbox:ends 1-3 at now-1000 kind failed order p row {2}\n"
)

func read(most int) func(p *Pool) any {
	return func(p *Pool) any {
		list, mine, err := p.Rows(context.Background(), most)
		var ms []int64
		for i := range list {
			ms = append(ms, list[i].At.UnixMilli())
			list[i].At = time.Time{}
		}
		return fmt.Sprint(list, ms, mine, err)
	}
}

func sent(ids ...string) func(p *Pool) any {
	return func(p *Pool) any {
		var rows []Row
		for _, id := range ids {
			stream, id, _ := strings.Cut(id, " ")
			rows = append(rows, Row{Stream: stream, ID: id})
		}
		return p.Done(context.Background(), rows)
	}
}

// anOrder is a bought order o of the identity A, placed 10 s ago.
const anOrder = "HSET order:o id A account main owner r1 state bought placed now-10000 price 5\n" +
	"ZADD deadlines now+50000 o\nZADD permits:main now+50000 o\n" +
	"ZADD inflight:A now+50000 o\nSADD owned:r1 o\nZADD solves:overall now-10000 o\nHSET stats:A bought 1\n"

// The same order before its task is known.
var (
	aPlacedOrder   = strings.NewReplacer("state bought", "state placed", "HSET stats:A bought 1\n", "").Replace(anOrder)
	aSubmit        = strings.Replace(aPlacedOrder, "state placed", "state submitting", 1)
	anUnknownOrder = strings.NewReplacer("state bought", "state unknown", "SADD owned:r1 o\n", "").Replace(anOrder)
)

// someSums are sums of an hour ago.
const someSums = "HSET outcomes:main:turnstile at now-3600000 recent 10 order:ended 10 order:solved 10 " +
	"order:leads 90000 report:accepted:x 10 report:rejected:x 2\n"

func compared(e *End) { e.Type = captcha.Turnstile }

// inSubmit is an order during its submit.
const inSubmit = "HSET order:o owner r1 state submitting\n"

// badBrake begins the brake of an identity whose parameters were refused.
const badBrake = "HSET brake:A kind bad_parameters "

// oneOther says that another provider may get the next order.
func oneOther(e *End) { e.Others = 1 }

// aTask is the unfinished task c of the caller qa.
var aTask = "HSET client_task:c nonce n caller qa id A type turnstile made now-7000\n" +
	"ZADD client_tasks:" + digest("qa") +
	" now-7000 c\n"

func added(nonce string) func(p *Pool) any {
	return func(p *Pool) any {
		return fmt.Sprint(p.AddTask(context.Background(),
			&ClientTask{Name: "c", Caller: "qa", ID: "A", Type: captcha.Turnstile, Facts: "{}"}, nonce, 2))
	}
}

func endedTask(order, nonce string) func(p *Pool) any {
	return func(p *Pool) any {
		return fmt.Sprint(p.EndTask(context.Background(), &ClientTask{Name: "c", Caller: "qa"}, order, nonce))
	}
}

func readTask(p *Pool) any {
	t, is, err := p.Task(context.Background(), "c")
	if !is {
		return fmt.Sprint("none ", err)
	}
	return fmt.Sprintf("%s %s %s %v %q, %v old, %v", t.Caller, t.ID, t.Type, t.Ended, t.Order, t.Now.Sub(t.Made), err)
}

func admitted(p *Pool) any {
	return describe(p.Admit(context.Background(), aCall(func(c *Call) { c.ID = Guest("A") }), Rate{2, time.Second}))
}

func refused(e *FailedError) func(p *Pool) any {
	return func(p *Pool) any { return fmt.Sprint(p.Refuse(context.Background(), Guest("A"), e)) }
}

func failedOne(p *Pool) any {
	return p.Fail(context.Background(), aCall(func(c *Call) { c.ID = Guest("A") }), &FailedError{Reason: "over"})
}

func disowned(p *Pool) any { return p.Disown(context.Background(), "A") }

func resumed(p *Pool) any { return fmt.Sprint(p.Resume(context.Background(), "A")) }

func flushed(p *Pool) any { return fmt.Sprint(p.Flush(context.Background(), "A")) }

func again(p *Pool) any { return taken(p.Again(context.Background(), aCall(nil))) }

func cancelled(c *Call, outcome string) func(p *Pool) any {
	return func(p *Pool) any { return p.endCall(context.Background(), c, outcome) }
}

func decides(want int) func(p *Pool) any {
	return func(p *Pool) any {
		c, err := p.Decide(context.Background(), aQuery(want))
		return fmt.Sprintf("%+v %v", c, err)
	}
}

// stuckOrders are orders at a stuck provider.
const stuckOrders = "ZADD inflight:A now+30000 o7 now+30001 o8\nHSET order:o7 account down\n" +
	"HSET order:o8 account down\n"

func stuck(call func(p *Pool) any) func(p *Pool) any {
	return func(p *Pool) any {
		p.SetStuck([]string{"own", "down"})
		return call(p)
	}
}

func reads(want int) func(p *Pool) any {
	return func(p *Pool) any {
		c, err := p.Counts(context.Background(), aQuery(want))
		return fmt.Sprintf("%+v %v", c, err)
	}
}

func aQuery(want int) Query {
	return Query{ID: "A", Margin: time.Second, Lead: 20 * time.Second, Want: want, Recheck: 30 * time.Second}
}

func theOrder() *Order {
	return &Order{
		Name: "o", ID: "A", Account: "main", Key: "k", Life: time.Minute, Concurrency: 3, Depth: 2, Horizon: 21 * time.Second,
		Facts: "{}", Price: 5, Budgets: []Budget{{Scope: ScopeOverall}},
	}
}

func learns(p *Pool) any {
	return fmt.Sprint(p.SaveLearned(context.Background(), "A", []byte("state")))
}

func probed(p *Pool) any { return p.Retry(context.Background(), "k", "main") }

func dueTwo(p *Pool) any { return fmt.Sprint(p.Due(context.Background(), 2)) }

func retried(p *Pool) any { return p.Retry(context.Background(), "A", "") }

func limited(o *Order) { o.Budgets = []Budget{{Scope: ScopeOverall, PerHour: 2, PerDay: 3}} }

// inMoney is a budget in millionths, and a price of 2,990 of them.
func inMoney(day, month int64) func(o *Order) {
	return func(o *Order) {
		o.Price, o.Budgets = 2989001, []Budget{{Scope: ScopeOverall, MicrosPerDay: day, MicrosPerMonth: month}}
	}
}

func pays(c *Call) { c.Budget = Budget{Scope: "key:qa", MicrosPerDay: 7, MicrosPerMonth: 14} }

func affords(p *Pool) any {
	err := p.Affords(context.Background(), aCall(pays))
	if failed := (*FailedError)(nil); errors.As(err, &failed) {
		return fmt.Sprint(err, ", until ", failed.Until.UnixMilli())
	}
	return err
}

func placed(change func(o *Order)) func(p *Pool) any {
	o := theOrder()
	o.Budgets = nil
	if change != nil {
		change(o)
	}
	return func(p *Pool) any {
		at, next, err := p.Place(context.Background(), o)
		if err != nil {
			return describe(err)
		}
		return fmt.Sprintf("placed at %d, next %q", at.UnixMilli(), next)
	}
}

func begun(nonce string) func(p *Pool) any {
	return func(p *Pool) any { return fmt.Sprint(p.Begin(context.Background(), "o", nonce)) }
}

func boughtWith(task string) func(p *Pool) any {
	return func(p *Pool) any { return fmt.Sprint(p.Bought(context.Background(), theOrder(), task, "{}")) }
}

func how(h Outcome) func(e *End) {
	return func(e *End) { *e = End{Outcome: h, Reason: "a reason, with a comma", Row: "{}"} }
}

func answers(refused bool) func(e *End) {
	return func(e *End) { e.Answer = &FailedError{BadParameters: refused, Reason: "no token"} }
}

func ended(changes ...func(e *End)) func(p *Pool) any {
	e := &End{
		Outcome: Solved, Provider: "main", Extra: "agent", Value: "T", Task: "7", BornAfter: 2 * time.Second,
		Lifetime: 2 * time.Minute, Margin: 5 * time.Second, Lead: 9 * time.Second, Row: "{}",
	}
	for _, change := range changes {
		if change != nil {
			change(e)
		}
	}
	return func(p *Pool) any { return endOf(p.End(context.Background(), theOrder(), e)) }
}

func endOf(how Outcome, next captcha.ID, err error) string {
	return fmt.Sprintf("%s, next %q, %v", how, next, err)
}

func beaten(p *Pool) any { return fmt.Sprint(p.Beat(context.Background())) }

func braked(kind string, ago time.Duration) func(p *Pool) any {
	return func(p *Pool) any {
		return fmt.Sprint(p.SetBrake(context.Background(), "k", kind, "no money", 20*time.Second, ago))
	}
}

func lifted(ago time.Duration) func(p *Pool) any {
	return func(p *Pool) any { return fmt.Sprint(p.Lift(context.Background(), "main", "k", ago)) }
}

// saidGood is an earlier report of the caller, by another request.
var saidGood = "1" + digest("qa") + "m"

func reported(accepted bool, nonce string) func(p *Pool) any {
	return func(p *Pool) any {
		return fmt.Sprint(p.Report(context.Background(), "o", "A", accepted, "qa", nonce, "{}"))
	}
}

// missedAfter takes from an empty stock after a time.
func missedAfter(d time.Duration) func(p *Pool) any {
	return func(p *Pool) any {
		time.Sleep(d)
		return once(aCall(nil))(p)
	}
}

// hours returns old elements of a list of noted counters. A | in a table means a space.
func hours(n int) string {
	var list []string
	for i := range n {
		list = append(list, fmt.Sprint(n-i, "|0|0|0|0|0|0|0|0|0|0"))
	}
	return strings.Join(list, ",")
}

// days are the counters before the first event of this hour, the last one, the day before, and six and seven days ago.
const days = "490923|20|0|0|2|0|0|0|0|0|500,490922|15|0|0|2|0|0|0|0|0|500,490900|15|0|0|2|0|0|0|0|0|400," +
	"490776|9|0|0|0|0|0|0|0|0|0,490775|1|0|0|0|0|0|0|0|0|0"

func shown(list []Period) (text string) {
	for _, period := range list {
		text += fmt.Sprintf("[%s %d hits %d waited %d missed %d left %d bought, spent %d]", period.At.Format(time.DateTime),
			period.Hits, period.Waited, period.Missed, period.Left, period.Bought, period.Spent)
	}
	return text
}
