insert into captcha_history (kind, id, at, target, owner, sitekey, task, status, key, content)
	select kind, md5(n::text), at,
		case when site <> 'large' then 'target-' || site when n % 2500 = 0 then 'rare'
			when at > now() - interval '15 days' then 'now' else 'before' end,
		'owner',
		case kind when 'order' then site else '' end,
		case kind when 'order' then n::text else '' end,
		case when kind <> 'order' then '' when n % 13 = 0 then 'error' else 'solved' end,
		case kind when 'handout' then site else '' end,
		'{}'
	from (select n, case when n % 2 = 0 then 'large' else (n % 2001)::text end as site,
			now() - n * interval '40 days' / 50000 as at
		from generate_series(1, 50000) n) made, unnest(array['order', 'handout']) kind;
insert into captcha_days
	select current_date - n % 41, 'target', 'target-' || n / 41, '', 'solved', 1
	from generate_series(1, 41000) n order by 1, 3;
vacuum analyze captcha_history;
vacuum analyze captcha_days
