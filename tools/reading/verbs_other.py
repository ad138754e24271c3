"""Verbs of things, firms, forces of nature, recipes, orders and rules, as in verbs_people.py; irregular forms."""

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

IRREGULAR = """oversleep overslept overslept;be was been;become became become;begin began begun;bend bent bent;bind bound bound;bite bit bitten;
blow blew blown;break broke broken;bring brought brought;build built built;burn burned burned;
buy bought bought;catch caught caught;choose chose chosen;come came come;cut cut cut;dig dug dug;
draw drew drawn;drink drank drunk;drive drove driven;eat ate eaten;fall fell fallen;feed fed fed;
feel felt felt;fight fought fought;find found found;fly flew flown;forget forgot forgotten;
freeze froze frozen;get got got;give gave given;go went gone;grind ground ground;grow grew grown;
hang hung hung;have had had;hear heard heard;hide hid hidden;hit hit hit;hold held held;
hurt hurt hurt;keep kept kept;know knew known;lay laid laid;lead led led;leave left left;
lend lent lent;let let let;lie lay lain;light lit lit;lose lost lost;make made made;
mean meant meant;meet met met;pay paid paid;put put put;read read read;ride rode ridden;
ring rang rung;rise rose risen;run ran run;saw sawed sawn;say said said;see saw seen;sell sold sold;
send sent sent;set set set;sew sewed sewn;shake shook shaken;shoot shot shot;show showed shown;
shut shut shut;sing sang sung;sink sank sunk;sit sat sat;sleep slept slept;sow sowed sown;
speak spoke spoken;spend spent spent;spill spilled spilled;split split split;stand stood stood;
steal stole stolen;stick stuck stuck;strike struck struck;sweep swept swept;swim swam swum;
swing swung swung;take took taken;teach taught taught;tear tore torn;tell told told;
think thought thought;throw threw thrown;wake woke woken;wear wore worn;weave wove woven;
win won won;wind wound wound;write wrote written;mislay mislaid mislaid;
overhear overheard overheard;rebuild rebuilt rebuilt;withdraw withdrew withdrawn;spin spun spun;
shrink shrank shrunk;burst burst burst;leak leaked leaked;do did done;bleed bled bled;bet bet bet;
cost cost cost;mow mowed mown;forbid forbade forbidden;lean leaned leaned;undo undid undone;
rent rented rented;knit knitted knitted;deal dealt dealt;understand understood understood;
stink stank stunk;slide slid slid;spread spread spread"""
DOUBLED = set("""stop jam plan trim chop drop stir wrap ship rub plug shop knit rip quarrel tip drag pin tap step scrub
scrap grab pat fit travel cancel label unwrap skip spot swap dip hem tug log mop strip clip plug
slip""".split())
