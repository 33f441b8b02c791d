package provider

import "strings"

// knownFaults explains the codes of account faults: what the provider does, and what the operator
// can do. NAME is a placeholder for the provider's name, and SITE for the provider's host.
var knownFaults = map[string]struct{ does, remedy string }{
	"ERROR_ZERO_BALANCE":       {emptyBalance, "top up the balance at SITE, then run `poold probe NAME`"},
	"ERROR_WRONG_USER_KEY":     {refusesKey, "check providers.NAME.key in the configuration file"},
	"ERROR_KEY_DOES_NOT_EXIST": {refusesKey, "check providers.NAME.key in the configuration file, and the account's plan at SITE"},
	"ERROR_IP_NOT_ALLOWED":     {refusesAddress, "allow the address of this machine in the account's settings at SITE"},
	"ERROR_IP_BLOCKED":         {refusesAddress, "ask the support of SITE to unblock the address of this machine"},
	"ERROR_ACCOUNT_SUSPENDED":  {"has suspended the account", "ask the support of SITE why the account is suspended"},
	"IP_BANNED":                {bansMachine, "wait until the ban ends, and check providers.NAME.key and the number of submits"},
	"ERROR_IP_BANNED":          {bansMachine, "wait until the ban ends, and check providers.NAME.key and the number of submits"},
	"ERROR: 1001":              {bansMachine, "wait until the ban ends, and lower providers.NAME.concurrency"},
	"ERROR: 1002":              {emptyBalance, "top up the balance at SITE, then run `poold probe NAME`"},
	"ERROR: 1003":              {bansMachine, "wait until the ban ends, and lower providers.NAME.concurrency"},
	"ERROR: 1004":              {refusesKey, "check providers.NAME.key in the configuration file"},
	"ERROR: 1005":              {bansMachine, "wait until the ban ends, and raise providers.NAME.poll_interval"},
}

// Each of the following faults has more than one code.
const (
	emptyBalance   = "reports an empty balance"
	refusesKey     = "refuses the key"
	refusesAddress = "refuses the address of this machine"
	bansMachine    = "has banned this machine for a while"
)

// Advice returns what the provider does and what an operator can do, for the code of an account fault; "" = unknown.
func (c *Client) Advice(code string) (does, remedy string) {
	known := knownFaults[code]
	site := strings.TrimPrefix(strings.TrimPrefix(c.base, "https://"), "http://")
	site, _, _ = strings.Cut(site, "/")
	return known.does, strings.NewReplacer("NAME", c.cfg.Name, "SITE", site).Replace(known.remedy)
}
