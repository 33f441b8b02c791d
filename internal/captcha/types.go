package captcha

import (
	"reflect"
	"slices"
	"strings"
	"time"
)

// Kind is the row of a type of CAPTCHA in the table of types. All that depends on the type follows from its row:
// the keys and defaults of pools.yaml, the fields in each protocol and direction, and the form of the solution.
type Kind struct {
	Type     Type
	Poolable bool // its tokens can be bought before they are needed

	Lifetime, Margin time.Duration // defaults; the vendors document the lifetimes, and a caller needs the margin
	FirstPoll        time.Duration // after the submit; the services advise it

	Fields []Field // the first one names the site

	InPHP          []Name // values of `method` in in.php
	CreateTask     []Name // names in createTask, without the endings Task and TaskProxyless
	EnterpriseTask bool   // the enterprise variant has a separate name in createTask, with the ending Enterprise
	// Report is in the paths of reports about this type in createTask's protocol, as in reportIncorrectHcaptcha.
	Report string
	// Solution is the name of the member with the token in createTask's solution; "" = the solution consists of named
	// values.
	Solution string
	Values   []string // the names of these values, in the order of the services
	Extra    string   // a member of the solution that a site may want with the token: see Extra
}

// Name is a name of a type in a protocol. A call has the name if it has this version; "" matches any version that no
// other name has. A client sends the name of its service, or else the first one without a service.
type Name struct{ Name, Version, Service string }

// Field is a key of an identity that belongs to a type, with its names in each protocol. If the field has several
// names in a protocol, a client sends the first one, or those that are marked for its service, as in gt@captchaai. As a
// server, poold accepts all names. A field without a key has no effect on this type.
type Field struct {
	Key        string // in pools.yaml and POST /solve
	Must       bool   // a solve needs it
	Visit      bool   // it belongs to one visit of the page, so only a request has it; it may be long
	InPHP      string
	CreateTask string // the names in the object task; a dot leads into an object
}

// The fields that several types have.
var (
	sitekey    = Field{Key: "sitekey", Must: true, InPHP: "sitekey", CreateTask: "websiteKey"}
	googlekey  = Field{Key: "sitekey", Must: true, InPHP: "googlekey", CreateTask: "websiteKey"}
	enterprise = Field{Key: "enterprise", InPHP: "enterprise", CreateTask: "isEnterprise"}
	language   = Field{InPHP: "lang language", CreateTask: "languagePool"} // only the text of a picture has one

	// onPage are the fields of all types that a page shows.
	onPage = []Field{
		{Key: "pageurl", Must: true, InPHP: "pageurl", CreateTask: "websiteURL"},
		{Key: "user_agent", InPHP: "userAgent", CreateTask: "userAgent"},
		{Key: "proxy", InPHP: "proxy"}, {Key: "proxy_type", InPHP: "proxytype"}, // createTask has five fields
		language,
	}
)

// Kinds is the table of types, the poolable ones first. Messages name the types in this order.
var Kinds = [...]Kind{
	{
		Type: RecaptchaV2, Poolable: true, Lifetime: 120 * time.Second, Margin: 40 * time.Second, FirstPoll: 15 * time.Second,
		Fields: append([]Field{
			googlekey, enterprise, {Key: "invisible", InPHP: "invisible", CreateTask: "isInvisible"},
			{Key: "data_s", Visit: true, InPHP: "data-s datas",
				CreateTask: "recaptchaDataSValue enterprisePayload.s@enterprise"},
			{Key: "action", InPHP: "action", CreateTask: "pageAction action"}, // of the enterprise variant
		}, onPage...),
		InPHP:          []Name{{Name: "userrecaptcha"}},
		CreateTask:     []Name{{Name: "RecaptchaV2"}, {Name: "NoCaptcha"}, {Name: "ReCaptchaV2", Service: "capsolver"}},
		EnterpriseTask: true, Report: "Recaptcha", Solution: "gRecaptchaResponse",
	},
	{
		Type: RecaptchaV3, Poolable: true, Lifetime: 120 * time.Second, Margin: 40 * time.Second, FirstPoll: 15 * time.Second,
		Fields: append([]Field{
			googlekey, enterprise, {Key: "action", InPHP: "action", CreateTask: "pageAction action"},
			{Key: "min_score", InPHP: "min_score", CreateTask: "minScore"},
		}, onPage...),
		InPHP:      []Name{{Name: "userrecaptcha", Version: "v3"}},
		CreateTask: []Name{{Name: "RecaptchaV3"}, {Name: "ReCaptchaV3", Service: "capsolver"}}, Report: "Recaptcha",
		Solution: "gRecaptchaResponse",
	},
	{
		Type: HCaptcha, Poolable: true, Lifetime: 120 * time.Second, Margin: 40 * time.Second, FirstPoll: 5 * time.Second,
		Fields: append([]Field{
			sitekey, {Key: "rqdata", Visit: true, InPHP: "data", CreateTask: "enterprisePayload.rqdata data"},
			{InPHP: "invisible", CreateTask: "isInvisible"}, // a client sends it always
		}, onPage...),
		InPHP: []Name{{Name: "hcaptcha"}}, CreateTask: []Name{{Name: "HCaptcha"}},
		Report: "Hcaptcha", Solution: "gRecaptchaResponse", Extra: "respKey",
	},
	{
		Type: Turnstile, Poolable: true, Lifetime: 300 * time.Second, Margin: 50 * time.Second, FirstPoll: 5 * time.Second,
		Fields: append([]Field{
			sitekey, {Key: "action", InPHP: "action", CreateTask: "action pageAction@capmonster metadata.action@capsolver"},
			{Key: "data", InPHP: "data", CreateTask: "data cData turnstileCData@anti-captcha metadata.cdata@capsolver"},
		}, onPage...),
		InPHP:      []Name{{Name: "turnstile"}},
		CreateTask: []Name{{Name: "Turnstile"}, {Name: "AntiTurnstile", Service: "capsolver"}}, Solution: "token",
		Extra: "userAgent",
	},
	{
		Type: GeeTest, Lifetime: 120 * time.Second, Margin: 40 * time.Second, FirstPoll: 5 * time.Second,
		Fields: append([]Field{
			{Key: "gt", Must: true, InPHP: "gt", CreateTask: "gt"},
			{Key: "challenge", Must: true, InPHP: "challenge", CreateTask: "challenge"},
			{Key: "api_server", InPHP: "api_server", CreateTask: "geetestApiServerSubdomain"},
		}, onPage...),
		InPHP: []Name{{Name: "geetest"}}, CreateTask: []Name{{Name: "GeeTest"}},
		Values: []string{"challenge", "validate", "seccode"},
	},
	{
		Type: GeeTestV4, Lifetime: 120 * time.Second, Margin: 40 * time.Second, FirstPoll: 5 * time.Second,
		Fields: append([]Field{
			{Key: "captcha_id", Must: true, InPHP: "captcha_id gt@captchaai",
				CreateTask: "gt initParameters.captcha_id@2captcha"},
		}, onPage...),
		InPHP:      []Name{{Name: "geetest_v4"}, {Name: "geetest", Version: "4", Service: "captchaai"}},
		CreateTask: []Name{{Name: "GeeTest", Version: "4"}},
		Values:     []string{"captcha_id", "lot_number", "pass_token", "gen_time", "captcha_output"},
	},
	{
		Type: Image, Lifetime: 120 * time.Second, Margin: 40 * time.Second, FirstPoll: 5 * time.Second,
		Fields: []Field{
			{Key: "charset", InPHP: "numeric", CreateTask: "numeric"},
			{Key: "case_sensitive", InPHP: "regsense", CreateTask: "case"},
			// The clients of captchaai and its manual use different names.
			{Key: "min_length", InPHP: "min_len min_len@captchaai minLen@captchaai", CreateTask: "minLength"},
			{Key: "max_length", InPHP: "max_len max_len@captchaai maxLen@captchaai", CreateTask: "maxLength"},
			{Key: "phrase", InPHP: "phrase", CreateTask: "phrase"},
			{Key: "math", InPHP: "calc", CreateTask: "math"},
			{Key: "language", InPHP: "lang"}, // in createTask, languagePool names a pool of workers
			{Key: "instructions", InPHP: "textinstructions", CreateTask: "comment"},
			{InPHP: "pageurl", CreateTask: "websiteURL"}, // for the statistics of a service
		},
		InPHP: []Name{{Name: "base64"}, {Name: "post"}}, CreateTask: []Name{{Name: "ImageToText"}},
		Report: "ImageCaptcha", Solution: "text",
	},
}

// Of returns the row of a type, or an empty row for an unknown type.
func Of(t Type) Kind {
	for _, k := range Kinds {
		if k.Type == t {
			return k
		}
	}
	return Kind{}
}

// Types lists the poolable types: the types whose tokens can be bought before they are needed.
func Types() []Type { return typesOf(func(k Kind) bool { return k.Poolable }) }

// SolvableTypes lists all types of CAPTCHA, the poolable types first.
func SolvableTypes() []Type { return typesOf(func(Kind) bool { return true }) }

// TypesWith lists the types of CAPTCHA that have a field with this key.
func TypesWith(key string) []Type {
	return typesOf(func(k Kind) bool { return k.Has(key) })
}

// IsOfVisit reports whether a key belongs to one visit of the page.
func IsOfVisit(key string) bool {
	return len(typesOf(func(k Kind) bool {
		return slices.ContainsFunc(k.Fields, func(f Field) bool { return f.Key == key && f.Visit })
	})) > 0
}

func typesOf(belongs func(Kind) bool) (all []Type) {
	for _, k := range Kinds {
		if belongs(k) {
			all = append(all, k.Type)
		}
	}
	return all
}

// Has reports whether the type has a key.
func (k Kind) Has(key string) bool {
	return slices.ContainsFunc(k.Fields, func(f Field) bool { return f.Key == key })
}

// Must lists the keys that a solve of the type needs, the site's key first.
func (k Kind) Must() (keys []string) {
	for _, f := range k.Fields {
		if f.Must {
			keys = append(keys, f.Key)
		}
	}
	return keys
}

// Keys lists the keys of an identity in pools.yaml, except its type.
func Keys() (keys []string) {
	for _, field := range reflect.VisibleFields(reflect.TypeFor[Identity]()) {
		if key := field.Tag.Get("yaml"); key != "type" && key != "" && key[0] != ',' {
			keys = append(keys, key)
		}
	}
	return keys
}

// Ptr returns a pointer to the field with the given key of pools.yaml.
func (i *Identity) Ptr(key string) any {
	for _, field := range reflect.VisibleFields(reflect.TypeFor[Identity]()) {
		if field.Tag.Get("yaml") == key {
			return reflect.ValueOf(i).Elem().FieldByIndex(field.Index).Addr().Interface()
		}
	}
	panic("captcha: no key " + key)
}

// Sent returns the names that a client sends to a service. The argument names is a list as in Field.
func Sent(names, service string) (sent []string) {
	for name := range strings.FieldsSeq(names) {
		if name, at, marked := strings.Cut(name, "@"); marked && at == service {
			sent = append(sent, name)
		}
	}
	if all := Read(names); sent == nil && all != nil {
		return all[:1]
	}
	return sent
}

// Read returns all names in a list that is written as in Field, without the services.
func Read(names string) (all []string) {
	for name := range strings.FieldsSeq(names) {
		name, _, _ = strings.Cut(name, "@")
		if !slices.Contains(all, name) {
			all = append(all, name)
		}
	}
	return all
}
