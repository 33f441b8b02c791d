-- How one order ended, by the order's name.
create table captcha_solves (
	id        text collate "C" primary key, -- in the order of its bytes, whatever the database's language
	identity  text not null,
	target    text not null,                -- "/solve": none
	owner     text not null,
	type      text not null,
	sitekey   text not null,
	pageurl   text not null,
	provider  text not null,
	task      text not null,                -- the provider's id
	how       text not null,                -- solved, discarded, failed, refused or lost
	status    text not null,                -- solved or error
	code      text not null,                -- the provider's error code
	placed    timestamptz not null,
	submitted timestamptz,                  -- null: it did not come to that
	ended     timestamptz not null,
	solved    timestamptz,                  -- the token is no older; null: there is none
	polls     bigint not null,
	callback  boolean not null,
	price     bigint not null               -- in billionths of the currency
);

-- Newest first, of all targets and of one.
create index captcha_solves_site on captcha_solves (sitekey, ended, id);
create index captcha_solves_site_target on captcha_solves (sitekey, target, ended, id);
create index captcha_solves_status on captcha_solves (status, ended, id);
create index captcha_solves_status_target on captcha_solves (status, target, ended, id);

-- What the orders that ended on a UTC day come to.
create table captcha_figures (
	day        date not null,
	target     text not null,
	owner      text not null,
	type       text not null,
	solved     bigint not null,
	discarded  bigint not null,
	failed     bigint not null,
	refused    bigint not null,
	lost       bigint not null,
	elapsed_ms bigint not null, -- of those solved or discarded
	spent      bigint not null, -- in billionths of the currency
	primary key (day, target, owner, type)
);
