"""Verbs with what stands with them. A line: synonyms | classes of objects | optional roles | roles that must be there.
The letters of optional roles: p place, t time, d for how long, D in how long, m price, w instrument, b for whom, c with
whom, r reason, u purpose, f how often, k condition, M of what, G into where, g goal, s starting point, h vehicle, o about
what, A as what, C colour, T through what, y until when, W with what stuff, V in what vessel, F in what fat, L in what
liquid, z at what heat, K with what of the kitchen's, E with what food, n with what dish."""

IRREGULAR = """be was been;become became become;begin began begun;bend bent bent;bind bound bound;bite bit bitten;
blow blew blown;break broke broken;bring brought brought;build built built;burn burned burned;buy bought bought;
catch caught caught;choose chose chosen;come came come;cut cut cut;dig dug dug;draw drew drawn;drink drank drunk;
drive drove driven;eat ate eaten;fall fell fallen;feed fed fed;feel felt felt;fight fought fought;find found found;
fly flew flown;forget forgot forgotten;freeze froze frozen;get got got;give gave given;go went gone;grind ground ground;
grow grew grown;hang hung hung;have had had;hear heard heard;hide hid hidden;hit hit hit;hold held held;hurt hurt hurt;
keep kept kept;know knew known;lay laid laid;lead led led;leave left left;lend lent lent;let let let;lie lay lain;
light lit lit;lose lost lost;make made made;mean meant meant;meet met met;pay paid paid;put put put;read read read;
ride rode ridden;ring rang rung;rise rose risen;run ran run;saw sawed sawn;say said said;see saw seen;sell sold sold;
send sent sent;set set set;sew sewed sewn;shake shook shaken;shoot shot shot;show showed shown;shut shut shut;
sing sang sung;sink sank sunk;sit sat sat;sleep slept slept;sow sowed sown;speak spoke spoken;spend spent spent;
spill spilled spilled;split split split;stand stood stood;steal stole stolen;stick stuck stuck;strike struck struck;
sweep swept swept;swim swam swum;swing swung swung;take took taken;teach taught taught;tear tore torn;tell told told;
think thought thought;throw threw thrown;wake woke woken;wear wore worn;weave wove woven;win won won;wind wound wound;
write wrote written;mislay mislaid mislaid;overhear overheard overheard;rebuild rebuilt rebuilt;withdraw withdrew withdrawn;spin spun spun;
shrink shrank shrunk;burst burst burst;leak leaked leaked;do did done;bleed bled bled;bet bet bet;cost cost cost;
mow mowed mown;forbid forbade forbidden;lean leaned leaned;undo undid undone;rent rented rented;knit knitted knitted;
deal dealt dealt;understand understood understood;stink stank stunk;slide slid slid;spread spread spread"""
DOUBLED = set("""stop plan trim chop drop stir wrap ship rub plug shop knit rip quarrel tip drag pin tap step scrub scrap grab pat fit
travel cancel label unwrap skip spot swap dip hem tug log mop strip clip plug slip""".split())

PERSON = """
mend/repair/fix | clothes furniture machines vehicles instruments fittings valuables | ptDwmbr
clean/scrub | furniture machines vessels fittings vehicles | ptdwfrk
polish/shine | valuables furniture vessels instruments | ptdwfr
paint | furniture fittings vehicles buildings | ptDwmrbC
varnish/lacquer | furniture instruments vehicles | ptDwm
oil/grease | machines vehicles | ptwfr
measure | fittings furniture buildings | ptu
weigh | animals valuables | pt
wash/rinse | clothes vessels vehicles | ptWfr
sweep | fittings | ptwf
brush | clothes animals | ptfr
inspect/examine/check | buildings machines vehicles fittings | ptdmrf
insure | valuables vehicles instruments works | tm
photograph | animals buildings plants vehicles works | ptbru
draw/sketch | animals buildings plants | ptbD
build/construct | fittings furniture vehicles buildings | ptDMmbwu
make/produce | furniture clothes vessels valuables | ptDMmbw
carve | works | ptDMbw
sew/stitch | clothes | ptDMbw
knit | clothes | ptDMb
weave | clothes | ptDMb
bake | dishes | ptbr
cook/prepare | dishes | ptbD
dig up/unearth | valuables vessels tools | ptw
bury | valuables papers vessels | ptwr
hide/conceal | valuables papers | tr PLACE
lose/mislay | valuables papers clothes tools | ptr
find/discover/come across | valuables papers clothes animals works | pt
steal/make off with | valuables vehicles works animals | ptr
break/smash | vessels valuables instruments | ptw
tear/rip | clothes papers | pt
burn/set fire to | papers clothes furniture | ptru
spill | drinks | pt
drop | vessels valuables instruments | ptr
throw away/discard | clothes furniture papers machines | tr
forget/leave behind | papers clothes valuables tools | ptr
leave | papers valuables vessels clothes | tr PLACE
put | papers valuables vessels tools | tr PLACE
hang/hang up | works clothes | tr PLACE
store/keep | goods tools instruments furniture | r PLACE
lock/lock up | fittings vehicles | twrf
open | fittings papers vessels | tw
buy/purchase | clothes furniture machines vehicles instruments vessels valuables works animals goods | ptmbru
buy/purchase | clothes furniture vehicles instruments valuables works animals | tmr FROM
sell | clothes furniture machines vehicles instruments vessels valuables works animals goods | ptmr TO
borrow | tools machines vehicles instruments clothes papers | tdru FROM
rent/hire | vehicles machines instruments buildings | tdmu FROM
inherit | valuables furniture buildings instruments works | t FROM
collect/pick up/fetch | papers goods furniture animals | ptrc FROM
receive/get | papers valuables goods | tr FROM
accept | papers valuables | tr FROM
give | clothes valuables vessels instruments animals papers | ptr TO
lend | tools machines vehicles instruments clothes | td TO
hand/pass | papers valuables tools | pt TO
send/post | papers goods valuables works | tr TO
show | papers works valuables plants | pt TO
offer | valuables vehicles goods animals | ptm TO
bring | papers goods dishes tools | tr TO
promise | valuables instruments animals | ptr TO
return/give back | tools papers valuables clothes | tr TO
deliver | goods papers furniture machines | tmh TO
send/ship | papers goods works machines | tghr
leave/bequeath | buildings valuables instruments furniture | r TO
read out/read aloud | papers texts | pt TO
write/compose | texts | ptDb
print | papers | ptm
sign | papers | ptr
translate | papers texts | ptDbm
copy/copy out | papers texts | ptb
frame | works papers | ptMm
restore | works furniture instruments buildings | ptDmb
tune | instruments | ptdmf
play/perform on | instruments | ptdfbc
practise | instruments | ptdf
feed | animals | ptfW
bathe | animals | ptfr
shear/clip | animals | ptr
train | animals | ptdu
walk | animals | ptfc
chase/run after | animals | ptd
catch/capture | animals | pt
rescue/save | animals valuables works | ptr
plant | plants | ptrb
water | plants | twf
prune/cut back | plants | ptwfr
cut down/fell | plants | ptwrm
transplant/move | plants | tr
pick/gather | food | ptbu
grow/raise | food plants | pd
eat | dishes food | ptrc
drink | drinks | ptfc
brew | drinks | ptDb
serve/dish up | dishes drinks | pt TO
order | goods machines papers furniture dishes | ptmrb FROM
cancel/call off | events papers | tr
organise/arrange | events | ptbu
attend/go to | events | tcrh
miss | events | r
open/start | events | ptn
film | events animals | ptb
postpone/put off | events | ry
load/stack | goods | pth
unload | goods | ptd
carry | goods furniture vessels papers | tGr
pull/drag | vehicles furniture vessels | tGr
push | vehicles furniture | tGr
move/shift | furniture machines instruments | tGr
lift | furniture machines vessels | t
dismantle/take apart | furniture machines vehicles instruments | ptDwr
assemble/put together | furniture machines vehicles | ptDw
test/try out | machines vehicles instruments | ptdr
switch off/turn off | machines | tr
install/put in | machines fittings | ptDm
replace/change | fittings machines | ptDmr
auction/put up for auction | valuables works furniture | ptmr
value/appraise | valuables works buildings | tm
wrap/wrap up | valuables papers vessels | ptb
label | vessels goods papers | ptr
count | goods | ptd
sort | goods | ptdr
deposit | valuables papers | t PLACE
decorate | buildings furniture fittings | ptr
search | buildings vehicles furniture | ptdr
visit | buildings events | tchfr
design | buildings furniture clothes | tDbm
rebuild/reconstruct | buildings fittings | tDMm
close/shut | buildings fittings | trd
wear | clothes valuables | ptr
iron/press | clothes | ptfr
dye | clothes | ptCw
examine/look at | papers works texts plants | ptd
hear/listen to | texts | ptc
praise | persons | pr
perform/put on | texts | ptrb
learn by heart/memorise | texts | ptdr
dedicate | texts | tr TO
finish/complete | texts works | ptDr
telephone/ring up/call | persons | ptr
meet/run into | persons | ptc
marry | persons | ptr
teach | persons | ptdf
visit/call on | persons | tdhrf
follow | persons | tr
invite | persons | tgr
photograph | persons | ptr
nurse/look after | persons animals | pdr
employ/take on | persons | ptr
succeed | persons | tA
paint/portray | persons | ptDm
"""

MOTION = """
walk/go on foot | gsecdtr
travel/journey | gscdhtru
cycle/ride | gsecdtr
sail | gscdtr
row | gsectD
move | gstr
drive | gschtdu
fly | gsht
hurry/rush | gstr
swim | gsecDt
return/come back | gsthr
set out/leave | gsctr
come | gsthr
climb | gecdt
emigrate | gstr
"""

STAY = """
live/dwell | pdcr
stay/lodge | pdctmr
sleep | pdtr
work | pdtf
wait | pdtr
sit | pdct
hide | pdr
spend the night | ptcr
retire | tr
faint/pass out | ptr
fall asleep | ptr
sing | pdftc
dance | pdtc
swim | pftcr
fish | pftc
meditate | pft
talk/speak | ptdqo
lecture/give a talk | ptdo
complain/grumble | tof
argue/quarrel | ptco
dream | tof
laugh | op
study | pdt
knock | tp
stop smoking | tr
resign/step down | tr
catch cold | ptr
get lost/lose the way | ptr
slip | ptr
break a leg | ptr
lose a tooth | pt
win the raffle | pt
arrive late/come late | tr
oversleep | tr
knit | pft
play cards | pftc
"""

THING = """
break down/fail | machines vehicles | ptr
stop/stand still | machines | ptr
leak | vessels fittings vehicles | ptr
collapse/give way | furniture fittings buildings | ptr
catch fire/burst into flames | machines vehicles buildings | ptr
fall over/topple over | furniture fittings plants | tr
crack | vessels fittings instruments | tr
freeze up/freeze | machines fittings | tr
rust | machines tools | pr
sink/go under | boats | ptr
jam/stick | fittings machines tools | ptr
disappear/vanish | animals valuables papers works | ptr
turn up/reappear | animals valuables papers clothes | pt
arrive | papers goods machines | pthr
overheat | machines vehicles | tr
shrink | clothes | tr
wither/dry up | plants | tr
bloom/flower | plants | td
escape/run away | animals | ptT
bark/make a noise | dogs | ptr
fall ill/sicken | animals | tr
sleep | animals | pf
burst | vessels machines | ptr
squeak/creak | fittings furniture vehicles | kr
"""

RECIPE = """
boil/simmer | food | dVKk
fry/brown | food | dFV
roast | food | dVFz
soak/steep | food | dL
chop/dice | food | K
slice | food | K
grate | food | K
peel | food | K
crush/pound | food | K
toast | food | dV
stir in/mix in | food | Kk
add | food | kt
melt | food | Vd
whip/beat | food | Kd
strain/sieve | food | K
bake | dishes | dVz
cool | dishes | d
cover | dishes | Kd
garnish/decorate | dishes | E
serve | dishes | Ek
marinate | food | dL
season | dishes | E
brush/coat | dishes | E
stuff/fill | dishes | E
dust | dishes | E
"""

ORDER = """
clean/wash | parts | wWf
oil/grease | parts | wWf
store/keep | parts | PLACE
check/inspect | parts | fk
replace/change | parts | fk
polish | parts | wWf
tighten | parts | wf
cover | parts | wk
dry | parts | wk
rinse | parts | Wf
remove/take off | parts | wk
descale | parts | Wf
"""

FIRM = """
repair/mend | machines vehicles instruments fittings buildings | ptDmr
replace/change | fittings machines | ptDmr
install/put in | machines fittings | ptDm
build/construct | fittings buildings vehicles boats | ptDMm
deliver | goods papers furniture machines | tmhr TO
insure | valuables vehicles instruments works buildings boats | tmr
clean | buildings furniture fittings | ptDfm
inspect/examine | buildings machines vehicles fittings | ptdmfr
print | papers | ptmr
dismantle/take apart | machines vehicles fittings | ptDr
paint | fittings buildings vehicles boats | ptDmCr
buy/purchase | buildings vehicles machines boats works | tmru
sell | buildings vehicles machines instruments goods | tmr TO
order | goods machines | tmr
restore | works furniture instruments buildings | ptDmr
move/shift | furniture machines instruments | tGrm
search for/look for | animals valuables works boats | ptdr
produce/make | furniture clothes vessels | pt
tow away/haul off | vehicles boats | ptr
pull down/demolish | buildings fittings | tDmr
rent/hire | vehicles buildings machines | tdmu FROM
value/appraise | valuables works buildings | tm
lose/mislay | papers goods | tr
return/send back | papers goods | tr TO
"""

FORCE = """
ruin/spoil | clothes papers instruments works furniture goods | pt
destroy/wreck | fittings buildings plants machines | ptD
damage/hurt | fittings buildings vehicles boats plants instruments | pt
soak/drench | papers clothes goods | pt
carry off/sweep away | clothes fittings boats goods furniture | pt
bury/cover | vehicles fittings plants buildings | pt
wake | crowd animals | pt
delay/hold up | crowd goods events boats | pdt
frighten/scare | crowd animals | pt
kill | plants animals | pt
hurt/injure | crowd persons | pt
break/crack | fittings vessels | pt
block/obstruct | fittings buildings | dt
stop/interrupt | events machines | pdt
"""

CROWD = """
sleep | pdtr
arrive/come | ptshr
wait | pdtr
get lost/lose the way | ptr
fall ill | ptr
dance | pdt
sing | pdt
protest/object | ptr
leave/go home | thr
lose patience | ptr
get wet | ptr
stay away | tr
help/lend a hand | ptdr
have lunch/eat lunch | pt
visit/look at | buildings events works | ptdr
win/carry off | valuables | pt
sign | papers | ptr
find/discover | valuables papers animals | pt
carry/lug | furniture goods vessels | tGr
repair/mend | fittings machines vehicles | ptDwr
clean/scrub | buildings fittings vehicles | ptDwr
"""

RULE = """
leave | goods keepables | yt PLACE
keep/store | goods keepables | r PLACE
collect/fetch | goods keepables | pt FROM
return/bring back | keepables papers | yt TO
hand in | papers keepables | yt TO
order | goods dishes | yt FROM
deliver | goods papers | tp
clean/wash | keepables | ptWf
wash | clothes | ptWf
pay for | goods dishes | ty
repair/mend | keepables | pty
feed | beasts | ptWf
keep/tether | beasts | rt PLACE
load | goods | pt
show | papers | pt TO
label | keepables goods | t
burn | goods | ptr
sell | goods dishes | pty
wear | clothes | ptr
"""
