-- +goose Up

-- What a key did with a token.
create table if not exists captcha_audit (
	key    text collate "C" not null, -- its name; "-": calls without a key
	at     timestamptz not null,      -- by the replica's clock
	id     text collate "C" not null, -- of the entry
	action text not null,             -- taken, bought, accepted or rejected
	target text not null,             -- "/solve": none
	token  text not null,             -- its id, never its value
	source text not null,             -- as the answer with the token said
	image  text not null,             -- hash and size of what was solved, where that is a picture
	price  bigint not null,           -- of a token that was bought for this call, in billionths of the currency; -1: unknown
	primary key (key, at, id)         -- newest first, of all targets, and the oldest
);

-- Newest first, of one target.
create index if not exists captcha_audit_target on captcha_audit (key, target, at, id);

-- What a key did on a UTC day.
create table if not exists captcha_audit_figures (
	day        date not null,
	key        text collate "C" not null,
	handed_out bigint not null, -- taken or bought
	bought     bigint not null,
	accepted   bigint not null,
	rejected   bigint not null,
	spent      bigint not null, -- in billionths of the currency
	unpriced   bigint not null, -- bought tokens without a known price, which are not in spent
	primary key (day, key)
);
