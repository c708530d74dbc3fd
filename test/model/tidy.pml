/* Nothing here is behaviour. It gives states that cannot be told apart one form, so that there are fewer of them and
 * the number of records, takeovers, faults and handovers needs no bound. It follows each step. */

inline free(k_) {
	net[k_].state = FREE; net[k_].waits = NOBODY; net[k_].takeover = 0; net[k_].from = 0; net[k_].n = 0;
	net[k_].first = 0; net[k_].serial = 0; net[k_].base = 0; net[k_].landed = 0; net[k_].unclear = 0; net[k_].no = 0
}

#define key(j) (net[j].state + 4 * (net[j].waits + 4 * (net[j].takeover + 2 * (net[j].from + 4 * (net[j].n + \
	4 * (net[j].first + 2 * (net[j].serial + 4 * (net[j].base + 16 * (net[j].landed + 16 * (net[j].unclear + \
	2 * net[j].no))))))))))

#define SWAP(p, q, field) f = net[p].field; net[p].field = net[q].field; net[q].field = f

inline order(p, q) {
	if
	:: key(p) < key(q) ->
		SWAP(p, q, state); SWAP(p, q, waits); SWAP(p, q, takeover); SWAP(p, q, from); SWAP(p, q, n); SWAP(p, q, first);
		SWAP(p, q, serial); SWAP(p, q, base); SWAP(p, q, landed); SWAP(p, q, unclear); SWAP(p, q, no)
	:: else
	fi
}

#define lower(offset) if :: offset < low -> low = offset :: else fi

inline tidy() {
	/* A late copy whose offset is taken is void wherever it lands: only its length matters. */
	g = 0;
	do
	:: g < NET ->
		if
#ifdef NO_AT
		:: net[g].state == FLYING && net[g].waits == NOBODY && !net[g].takeover && net[g].base < end -> net[g].base = NEVER
#else
		:: net[g].state == FLYING && net[g].waits == NOBODY && !net[g].takeover && net[g].base < end ->
			net[g].base = NEVER; net[g].from = 0; net[g].first = 0; net[g].serial = 0; net[g].no = 0
#endif
		:: else
		fi;
		g++
	:: else -> break
	od;

	/* The part of the log that nobody has to read again, except to load from the start, is summed up: the messages in
	 * it. Offsets count from there. */
	low = end;
	if :: inst[A].phase == OPEN || inst[A].phase == DRAIN -> lower(inst[A].next) :: else fi;
	if :: inst[B].phase == OPEN || inst[B].phase == DRAIN -> lower(inst[B].next) :: else fi;
	g = 0;
	do
	:: g < NET ->
		if
		:: net[g].waits == NOBODY
		:: net[g].waits != NOBODY && !net[g].takeover -> lower(net[g].base)
		:: net[g].waits != NOBODY && net[g].takeover && net[g].state == LANDED -> lower(net[g].landed)
		:: else
		fi;
		g++
	:: else -> break
	od;
	if
	:: low > 0 ->
		fold(low); pastX = foldX; pastY = foldY;
		g = 0;
		do
		:: g + low < end -> log[g] = log[g + low]; g++
		:: g + low >= end && g < end -> log[g] = EMPTY; g++
		:: else -> break
		od;
		end = end - low; PASSED = passed + low;
		g = 0;
		do
		:: g < NET ->
			if
			:: net[g].state != FREE && !net[g].takeover && net[g].base != NEVER -> net[g].base = net[g].base - low
			:: else
			fi;
			if
			:: net[g].state == LANDED -> net[g].landed = net[g].landed - low
			:: else
			fi;
			g++
		:: else -> break
		od;
		if :: inst[A].phase == OPEN || inst[A].phase == DRAIN -> inst[A].next = inst[A].next - low :: else fi;
		if :: inst[B].phase == OPEN || inst[B].phase == DRAIN -> inst[B].next = inst[B].next - low :: else fi
	:: else
	fi;

	/* Requests have no order. */
	order(0, 1);
#if NET > 2
	order(1, 2); order(0, 1);
#endif
#if NET > 3
	order(2, 3); order(1, 2); order(0, 1);
#endif
	k = 0; r = 0; m = 0; s = 0; f = 0; g = 0; o = 0; foldX = 0; foldY = 0; hits = 0; fenced = 0; cut = 0; until = 0; low = 0
}

/* The tenure of i is over, and what it had in its local store is forgotten. Each commit was held against the log
 * (checkFold), so loading from there and loading from the log's start end alike. */
inline forget(i) { inst[i].next = 0; inst[i].x = 0; inst[i].y = 0 }
