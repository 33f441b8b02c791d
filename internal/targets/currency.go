package targets

import (
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Currency is the code or the sign that is shown with amounts of money; "" = none. It has no meaning
// for poold itself.
type Currency string

// currencyCodes are the codes of ISO 4217 for money in circulation.
const currencyCodes = "AED AFN ALL AMD AOA ARS AUD AWG AZN BAM BBD BDT BGN BHD BIF BMD BND BOB BRL BSD BTN BWP BYN BZD CAD CDF CHF CLP CNY COP " +
	"CRC CUP CVE CZK DJF DKK DOP DZD EGP ERN ETB EUR FJD FKP GBP GEL GHS GIP GMD GNF GTQ GYD HKD HNL HTG HUF IDR ILS INR IQD IRR ISK " +
	"JMD JOD JPY KES KGS KHR KMF KPW KRW KWD KYD KZT LAK LBP LKR LRD LSL LYD MAD MDL MGA MKD MMK MNT MOP MRU MUR MVR MWK MXN MYR MZN " +
	"NAD NGN NIO NOK NPR NZD OMR PAB PEN PGK PHP PKR PLN PYG QAR RON RSD RUB RWF SAR SBD SCR SDG SEK SGD SHP SLE SOS SRD SSP STN SVC " +
	"SYP SZL THB TJS TMT TND TOP TRY TTD TWD TZS UAH UGX USD UYU UZS VED VES VND VUV WST XAF XCD XCG XOF XPF YER ZAR ZMW ZWG"

// currencyCode matches texts of three letters. Such a text must be a code.
var currencyCode = regexp.MustCompile(`^[A-Za-z]{3}$`)

// longestSign is the maximum length of a sign, in characters.
const longestSign = 3

const wantCurrency = "must be a code of ISO 4217 such as USD, or a sign of at most 3 letters and currency signs such as $"

// currencyText parses a currency.
func currencyText(e scalar) (any, string) {
	codes := strings.Fields(currencyCodes)
	switch {
	case e.text == "":
		return e.text, ""
	case currencyCode.MatchString(e.text):
		if slices.Contains(codes, e.text) {
			return e.text, ""
		}
		rule := wantCurrency + e.notText()
		if meant := strings.ToUpper(e.text); e.literal() && slices.Contains(codes, meant) {
			rule += "; did you mean " + meant + "?"
		}
		return nil, rule
	case utf8.RuneCountInString(e.text) > longestSign || strings.ContainsFunc(e.text, func(r rune) bool { return r != '.' && !unicode.In(r, unicode.Sc, unicode.L) }):
		return nil, wantCurrency + e.notText()
	}
	return e.text, ""
}

// With adds the currency to the text of an amount: a sign precedes the amount, and a code follows it.
func (c Currency) With(amount string) string {
	switch {
	case c == "":
		return amount
	case currencyCode.MatchString(string(c)):
		return amount + " " + string(c)
	}
	return string(c) + amount
}
