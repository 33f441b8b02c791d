package purchase

import (
	"encoding/json"
	"fmt"

	"poold/internal/captcha"
)

// facts are what is written into the journal for whoever adopts the order or
// gets its callback. What stands beside the identity and in it is read by replicas of
// an older version.
type facts struct {
	Target     string       `json:"target"`
	Owner      string       `json:"owner,omitempty"`
	Provider   string       `json:"provider"`
	Account    string       `json:"account,omitempty"` // the provider's, under whatever name
	Identity   *identity    `json:"identity,omitempty"`
	Type       captcha.Type `json:"type"`
	Enterprise bool         `json:"enterprise,omitempty"`
	Lifetime   int64        `json:"lifetime_ms"`
	Margin     int64        `json:"margin_ms"`
	Called     bool         `json:"called,omitempty"` // the provider was told to call back
	Delay      int64        `json:"callback_delay_ms"`
	Timeout    int64        `json:"timeout_ms"`
	Unpriced   bool         `json:"unpriced,omitempty"` // the price is unknown, not 0
}

// identity is a captcha.Identity in the journal: without its proxy, which is a secret,
// so that it must not be hashed. Its ID stands in the order's name.
type identity struct {
	Sitekey   string   `json:"sitekey"`
	Pageurl   string   `json:"pageurl"`
	Invisible bool     `json:"invisible,omitempty"`
	Action    string   `json:"action,omitempty"`
	MinScore  float64  `json:"min_score,omitempty"`
	Data      string   `json:"data,omitempty"`
	UserAgent string   `json:"user_agent,omitempty"`
	DataS     string   `json:"data_s,omitempty"`
	RQData    string   `json:"rqdata,omitempty"`
	GT        string   `json:"gt,omitempty"`
	Challenge string   `json:"challenge,omitempty"`
	CaptchaID string   `json:"captcha_id,omitempty"`
	APIServer string   `json:"api_server,omitempty"`
	Picture   *picture `json:"image,omitempty"`
}

// picture is a captcha.Picture in the journal.
type picture struct {
	SHA256        string          `json:"sha256"`
	Charset       captcha.Charset `json:"charset,omitempty"`
	CaseSensitive bool            `json:"case_sensitive,omitempty"`
	MinLength     int             `json:"min_length,omitempty"`
	MaxLength     int             `json:"max_length,omitempty"`
	Phrase        bool            `json:"phrase,omitempty"`
	Math          bool            `json:"math,omitempty"`
	Language      string          `json:"language,omitempty"`
	Instructions  string          `json:"instructions,omitempty"`
}

func journalIdentity(i captcha.Identity) *identity {
	j := &identity{
		Sitekey: i.Sitekey, Pageurl: i.Pageurl, Invisible: i.Invisible, Action: i.Action,
		MinScore: i.MinScore, Data: i.Data, UserAgent: i.UserAgent, DataS: i.DataS, RQData: i.RQData,
		GT: i.GT, Challenge: i.Challenge, CaptchaID: i.CaptchaID, APIServer: i.APIServer,
	}
	if i.Picture != (captcha.Picture{}) {
		p := picture(i.Picture)
		j.Picture = &p
	}
	return j
}

// identity is the one that the facts tell, as far as they do.
func (f facts) identity() captcha.Identity {
	i := captcha.Identity{Type: f.Type, Enterprise: f.Enterprise}
	j := f.Identity
	if j == nil {
		return i
	}
	i.Sitekey, i.Pageurl, i.Invisible, i.Action = j.Sitekey, j.Pageurl, j.Invisible, j.Action
	i.MinScore, i.Data, i.UserAgent, i.DataS, i.RQData = j.MinScore, j.Data, j.UserAgent, j.DataS, j.RQData
	i.GT, i.Challenge, i.CaptchaID, i.APIServer = j.GT, j.Challenge, j.CaptchaID, j.APIServer
	if j.Picture != nil {
		i.Picture = captcha.Picture(*j.Picture)
	}
	return i
}

// About is what the facts of an order tell to whoever keeps a history.
type About struct {
	Target, Owner, Provider string
	Identity                captcha.Identity // without its proxy
	Unpriced                bool             // the price of its token is unknown
}

// ReadAbout reads the facts of an order, of this version or the one before.
func ReadAbout(text string) (About, error) {
	var f facts
	if err := json.Unmarshal([]byte(text), &f); err != nil {
		return About{}, fmt.Errorf("reading what the journal knows of an order: %w", err)
	}
	return About{Target: f.Target, Owner: f.Owner, Provider: f.Provider, Identity: f.identity(), Unpriced: f.Unpriced}, nil
}

func (o *Order) facts() string {
	i := o.spec.Identity
	text, _ := json.Marshal(facts{ // strings and numbers alone
		Target: o.spec.Target, Owner: o.spec.Owner, Provider: o.provider, Account: o.accountID,
		Identity: journalIdentity(i), Type: i.Type, Enterprise: i.Enterprise,
		Lifetime: o.spec.Lifetime.Milliseconds(), Margin: o.spec.Margin.Milliseconds(),
		Called: o.called, Delay: o.delay.Milliseconds(), Timeout: o.timeout.Milliseconds(), Unpriced: o.price < 0,
	})
	return string(text)
}
