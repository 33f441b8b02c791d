package cli

import (
	"fmt"
	"net/http"
	"net/url"
	"time"

	"github.com/spf13/cobra"
)

// clientCommands are the commands that send one request.
func clientCommands() []request {
	return []request{
		{
			use:     "token TARGET",
			short:   "take one token from a running daemon and print it alone; exit code 3 means no token yet",
			example: "token staging-login --wait 20s\n  poold token staging-login --min-ttl 30s --json",
			// The method is POST, because net/http repeats a GET after a broken connection, which would take a
			// second token.
			method: http.MethodPost, path: "/pool/%s/token", isText: true, limit: 2 * time.Minute,
			flags: []field{
				{name: "wait", help: "how long to wait for a token, a `duration` or seconds, 60s at most " +
					"(default what the target's on_empty says)"},
				{name: "min-ttl", help: "take a token with at least this much of its life left, a `duration` or seconds"},
			},
		},
		{
			use: "report [TARGET] ID accepted|rejected", short: "report whether a site accepted a token",
			long: "Reports once whether a site accepted a token, with the key that took it. ID is the id in the answer to\n" +
				"poold token --json; the id of poold solve --json needs no TARGET.",
			example: "report staging-login 0123456789 rejected\n  poold report 0123456789 accepted",
			args:    cobra.RangeArgs(2, 3), method: http.MethodPost, inBody: true, prepare: prepareReport,
			shown: summed("reported"),
		},
		{
			use: "pause TARGET", short: "stop buying for a target on all replicas; ready tokens are still handed out",
			example: `pause staging-login --for 1h --reason "the page changes"`,
			method:  http.MethodPost, path: "/pool/%s/pause", inBody: true, shown: summed("paused"),
			flags: []field{
				{name: "for", help: "a `duration` from 1s to 720h (default until it is resumed)"},
				{name: "reason", help: "a `text` that the status shows, at most 200 characters"},
			},
		},
		{
			use:     "resume TARGET",
			short:   "end a pause that was not made in the file, or try one order of a refused target at once",
			example: "resume staging-login",
			method:  http.MethodPost, path: "/pool/%s/resume", shown: summed("resumed"),
		},
		{
			use:     "flush TARGET",
			short:   "discard the ready tokens of a target at once, without confirmation; orders in flight still land",
			example: "flush staging-login",
			method:  http.MethodDelete, path: "/pool/%s/tokens", shown: summed("flushed"),
		},
		{
			use: "probe PROVIDER", short: "try a provider that is down at once, after you have corrected its account",
			example: "probe captchaai",
			method:  http.MethodPost, path: "/providers/%s/probe", shown: summed("probed", "state", "reason", "remedy"),
		},
		{
			use: "reload", short: "make a running daemon read its file again; a file with a problem changes nothing",
			example: "reload",
			method:  http.MethodPost, path: "/-/reload", shown: summed("the file was read again"),
		},
		{
			use: "events", short: "list what changed on all replicas, the newest first: reloads, pauses, outages, budgets",
			example: "events --limit 20",
			method:  http.MethodGet, path: "/events", shown: listed("events", "at", "kind", "subject", "actor", "text"),
			flags: []field{
				{name: "limit", help: "show at most `N` events, 1 to 1000 (default 50)"},
			},
		},
		{
			use: "healthcheck", short: "exit with 0 if a running daemon is ready, else with 1; for images without a shell",
			example: "healthcheck --url http://127.0.0.1:8080",
			method:  http.MethodGet, path: "/readyz", limit: 5 * time.Second,
		},
	}
}

func deadLetterCommands() []request {
	return []request{
		{
			use: "list", short: "list these callbacks, without tokens", example: "dead-letters list", method: http.MethodGet,
			path: "/dead-letters", shown: listed("letters", "order", "provider", "task", "kind", "code", "arrived", "age_s",
				"until", "reason"),
		},
		{
			use: "replay", short: "store these callbacks in Redis now", example: "dead-letters replay",
			method: http.MethodPost, path: "/dead-letters/replay", limit: 5 * time.Minute,
			shown: summed("retried", "replayed", "dropped", "expired", "left", "reason"),
		},
	}
}

func historyCommands() []request {
	paged := []field{
		{name: "from", help: "`time` or day at which the range begins"},
		{name: "to", help: "`time` or day at which the range ends"},
		{name: "limit", help: "show at most `N` records, 1 to 1000 (default 50)"},
		{name: "cursor", help: "continue after an answer that had more, from its `cursor`"},
	}
	list := []request{
		{
			use: "site SITEKEY", short: "list the orders of a site key, newest first",
			example: "history site 6LeIxAcTAAAAAJcZVRqyHh71UMIEGNQ_MXjiZKhI --limit 2", path: "/site/%s", flags: paged,
		},
		{
			use: "day [DATE]", short: "show the figures of a day, by default today (UTC)", example: "history day 2026-01-02",
			args: cobra.MaximumNArgs(1), prepare: prepareDay, shown: listed("lines", sumColumns...),
		},
		{
			use: "orders --status STATUS", short: "list orders by status",
			example: "history orders --status error --target staging-login", path: "/orders", flags: append([]field{
				{name: "status", help: "`status` of the orders: solved or error", required: true},
				{name: "target", help: "only the orders of the target with this `name`"},
				{name: "owner", help: "only the orders for this `owner`"},
			}, paged...),
		},
		{use: "active", short: "list the orders in flight", example: "history active", path: "/active"},
		{
			use: "order ID|TASK", short: "show one order, by its id or by the service's id of its task",
			example: "history order 73105422", path: "/order/%s", shown: all,
		},
		{
			use: "usage", short: "show the spend by owner, target, provider or key",
			example: "history usage --by owner --csv", path: "/usage", shown: listed("lines", sumColumns...),
			flags: []field{
				{name: "by", help: "`what` each line sums up: owner, target, provider or key (default owner)"},
				paged[0], paged[1],
				{name: "per", help: "day: print one line for each day"},
			},
		},
		{
			use: "key NAME", short: "list the tokens that a key took, and its reports (scope admin)",
			example: "history key nightly-tests --limit 2", path: "/key/%s", flags: paged,
		},
	}
	for i := range list {
		list[i].method, list[i].hasCSV, list[i].path = http.MethodGet, true, "/history"+list[i].path
		if list[i].shown == nil {
			list[i].shown = listed("records", rowColumns...)
		}
	}
	return list
}

// These are the columns of the tables that list orders, hand-outs or sums. `poold history order` shows the other fields
// of an order.
var (
	rowColumns = []string{
		"id", "at", "key", "action", "target", "type", "order", "source", "image", "provider", "task", "outcome", "code",
		"placed_at", "ended_at", "elapsed_ms", "polls", "ended_by", "state", "price",
	}
	sumColumns = []string{
		"date", "type", "target", "owner", "provider", "key", "orders", "solved", "discarded", "failed", "refused", "lost",
		"handed_out", "returned", "missed", "accepted", "rejected", "bought", "spent", "unpriced",
	}
)

func prepareReport(c *call) error {
	outcome, id := c.words[len(c.words)-1], url.PathEscape(c.words[len(c.words)-2])
	if outcome != "accepted" && outcome != "rejected" {
		return UsageError(fmt.Sprintf("the last word is accepted or rejected, not %q", outcome))
	}
	c.given.Set("outcome", outcome)
	c.path = "/solve/" + id + "/report"
	if len(c.words) > 2 {
		c.path = "/pool/" + url.PathEscape(c.words[0]) + "/token/" + id + "/report"
	}
	return nil
}

func prepareDay(c *call) error {
	c.path = "/history/day/" + url.PathEscape(append(c.words, time.Now().UTC().Format(time.DateOnly))[0])
	return nil
}
