"""Classes of the schedules of the Chemical Weapons Convention, as patterns to recognise and refuse.

Each class is the schedule's wording or wider: chains of any length count, for a screen gains nothing by the limit of
ten carbons. What a schedule exempts by name passes. Source of all: Organisation for the Prohibition of Chemical
Weapons, Annex on Chemicals, as amended in 2020 (https://www.opcw.org/chemical-weapons-convention/annexes).
"""

from __future__ import annotations

from sciagent.domain.outcomes import Reason
from sciagent_verifiers.fast.hazards.rule import Rule

_OXO = "$([#15]~[#8X1,#16X1,#34X1])"  # phosphoryl, also drawn with charges, also with sulfur or selenium
_SMALL = "$([CH3]),$([CH2][CH3]),$([CH2][CH2][CH3]),$([CH]([CH3])[CH3])"  # methyl, ethyl, the propyls
_AMINE = "[#7;!$([#7]~[#6]=[#8,#16]);!$([#7](=*))]"


def _rule(
    name: str,
    entry: str,
    reason: str,
    *smarts: str,
    without: tuple[str, ...] = (),
    max_heavy: int | None = None,
    **needs: int,
) -> Rule:
    source = f"OPCW Annex on Chemicals, {entry}"
    return Rule(name, Reason.CHEMICAL_WEAPON, reason, source, smarts, needs=needs, without=without, max_heavy=max_heavy)


RULES: tuple[Rule, ...] = (
    _rule(
        "cwc-1a01-phosphonofluoridate", "Schedule 1.A.1", "an ester of a phosphonofluoridic acid (G-series class)",
        f"[#15;$([#15]-F);$([#15]-[#6]);$([#15]-[#8,#16]-[#6]);{_OXO}]",
        P=1, F=1,
    ),
    _rule(
        "cwc-1a02-phosphorocyanidate", "Schedule 1.A.2", "a cyanide on phosphorus(V) (tabun class)",
        f"[#15;$([#15]-[CX2]#[NX1]);{_OXO}]",
        P=1, N=1,
    ),
    _rule(
        "cwc-1a03-phosphonothiolate", "Schedule 1.A.3", "an S-(aminoethyl) phosphonothiolate (V-series class)",
        f"[#15;$([#15]-[#6]);$([#15]-[#16]-[CX4]-[CX4]-{_AMINE});{_OXO}]",
        P=1, S=1, N=1,
    ),
    _rule(
        "cwc-1a04-sulfur-mustard", "Schedule 1.A.4", "a sulfur mustard: two haloalkyl arms on a sulfide or its ether",
        "[Cl,Br,I]-[CX4]-[CX4]-[SX2]-[CX4]-[CX4]-[Cl,Br,I]",
        "[Cl,Br,I]-[CX4]-[CX4]-[SX2]-[CX4H2]-[Cl,Br,I]",
        "[Cl,Br,I]-[CX4]-[CX4]-[SX2]-[CX4H2]-[SX2]-[CX4]-[CX4]-[Cl,Br,I]",
        "[Cl,Br,I]-[CX4]-[CX4]-[SX2]-[CX4H2]-[CX4H2]-[SX2]-[CX4]-[CX4]-[Cl,Br,I]",
        "[Cl,Br,I]-[CX4]-[CX4]-[SX2]-[CX4H2]-[CX4H2]-[CX4H2]-[SX2]-[CX4]-[CX4]-[Cl,Br,I]",
        "[Cl,Br,I]-[CX4]-[CX4]-[SX2]-[CX4H2]-[CX4H2]-[CX4H2]-[CX4H2]-[SX2]-[CX4]-[CX4]-[Cl,Br,I]",
        "[Cl,Br,I]-[CX4]-[CX4]-[SX2]-[CX4H2]-[CX4H2]-[CX4H2]-[CX4H2]-[CX4H2]-[SX2]-[CX4]-[CX4]-[Cl,Br,I]",
        "[Cl,Br,I]-[CX4]-[CX4]-[SX2]-[CX4H2]-[#8]-[CX4H2]-[SX2]-[CX4]-[CX4]-[Cl,Br,I]",
        "[Cl,Br,I]-[CX4]-[CX4]-[SX2]-[CX4H2]-[CX4H2]-[#8]-[CX4H2]-[CX4H2]-[SX2]-[CX4]-[CX4]-[Cl,Br,I]",
        S=1, X=2,
    ),
    _rule(
        "cwc-1a05-lewisite", "Schedule 1.A.5", "a haloalkenyl arsenic (lewisite class)",
        "[#33]-[#6]=[#6]-[F,Cl,Br,I]", "[#33]-[#6](-[F,Cl,Br,I])=[#6]",
        As=1, C=2,
    ),
    _rule(
        "cwc-1a06-nitrogen-mustard", "Schedule 1.A.6", "an aliphatic bis(2-haloethyl)amine (nitrogen mustard)",
        "[F,Cl,Br,I]-[CX4H2,CX4H1]-[CX4H2,CX4H1]-[#7;X3,X4;!$([#7]-[!#6;!#1]);!$([#7]-[#6;!X4])]"
        "-[CX4H2,CX4H1]-[CX4H2,CX4H1]-[F,Cl,Br,I]",
        N=1, X=2,
    ),
    _rule(
        "cwc-1a07-saxitoxin", "Schedule 1.A.7", "the tricyclic skeleton of saxitoxin",
        "[#6]1~[#6]~[#6]~[#7]2~[#6](~[#7])~[#7]~[#6]~[#6]3~[#7]~[#6](~[#7])~[#7]~[#6]~1~2~3",
        N=6,
    ),
    _rule(
        "cwc-1a13-amidine-phosphonofluoridate", "Schedule 1.A.13 to 1.A.15",
        "a phosphorus fluoride with an amidine or guanidine on phosphorus (A-series class)",
        "[#15;$([#15]-F);$([#15]~[#7]~[#6X3]~[#7])]",
        P=1, F=1, N=2,
    ),
    _rule(
        "cwc-1a16-quaternary-carbamate", "Schedule 1.A.16",
        "a quaternary ammonium of a dimethylcarbamoyloxypyridine",
        "[#6]-[#7](-[#6])-[#6](=O)-[#8]-c1:[c,n]:[c,n]:[c,n]:[#7]:c1-[CX4]-[#7;X4;H0]",
        N=3, O=2,
    ),
    _rule(
        "cwc-1b09-phosphonyl-difluoride", "Schedule 1.B.9", "a phosphonyl difluoride, a scheduled precursor",
        f"[#15;$([#15](-F)-F);$([#15]-[#6]);{_OXO}]",
        P=1, F=2,
    ),
    _rule(
        "cwc-1b10-aminoethyl-phosphonite", "Schedule 1.B.10",
        "an aminoethyl ester of a phosphonous acid, a scheduled precursor",
        f"[#15;X3,H1;$([#15]-[CX4]);$([#15]-[#8]-[CX4]-[CX4]-{_AMINE})]",
        P=1, N=1, O=1,
    ),
    _rule(
        "cwc-1b11-phosphonochloridate", "Schedule 1.B.11 and 1.B.12",
        "an alkyl ester of an alkylphosphonochloridic acid, a scheduled precursor",
        f"[#15;$([#15]-[Cl,Br,I]);$([#15]-[{_SMALL}]);$([#15]-[#8]-[#6]);{_OXO}]",
        P=1, O=2,
    ),
    _rule(
        "cwc-2a01-aminoethyl-phosphorothiolate", "Schedule 2.A.1",
        "an S-(aminoethyl) phosphorothiolate ester (amiton class)",
        f"[#15;$([#15](-[#8,#7]-[#6])-[#8,#7]-[#6]);$([#15]-[#16]-[CX4]-[CX4]-{_AMINE});{_OXO}]",
        P=1, S=1, N=1,
    ),
    _rule(
        "cwc-2a03-quinuclidinyl-glycolate", "Schedule 2.A.3",
        "a quinuclidinyl ester of an arylglycolic acid (BZ class)",
        "[#8X2H1]-[CX4](-[#6])(-c)-C(=O)-[#8]-[CX4]1-[CX4]-[#7;+0]2-[CX4]-[CX4]-[CX4]-1-[CX4]-[CX4]-2",
        N=1, O=3, C=15,
    ),
    _rule(
        "cwc-2b04-alkylphosphorus", "Schedule 2.B.4",
        "phosphorus bonded to one methyl, ethyl or propyl group and no further carbon",
        f"[#15;$([#15]-[{_SMALL}]);!$([#15](~[#6])~[#6])]",
        P=1, C=1,
        without=("[CH3][CH2]-[#8]-[#15](=[#16])(-[CH2][CH3])-[#16]-c1[cH][cH][cH][cH][cH]1",),  # fonofos
    ),
    _rule(
        "cwc-2b05-phosphoramidic-dihalide", "Schedule 2.B.5", "a dialkylphosphoramidic dihalide, a scheduled precursor",
        f"[#15;$([#15](-[F,Cl,Br,I])-[F,Cl,Br,I]);$([#15]-[#7](-[CX4])-[CX4]);{_OXO}]",
        P=1, N=1,
    ),
    _rule(
        "cwc-2b06-phosphoramidate", "Schedule 2.B.6", "a dialkyl dialkylphosphoramidate, a scheduled precursor",
        f"[#8X1]~[#15](-[#8]-[{_SMALL}])(-[#8]-[{_SMALL}])-[#7](-[{_SMALL}])-[{_SMALL}]",
        P=1, N=1, O=3,
    ),
    _rule(
        "cwc-2b10-aminoethyl-chloride", "Schedule 2.B.10", "a 2-(dialkylamino)ethyl halide, a scheduled precursor",
        f"[Cl,Br,I]-[CH2]-[CH2]-[#7](-[{_SMALL}])-[{_SMALL}]",
        max_heavy=10, N=1, X=1,
    ),
    _rule(
        "cwc-2b11-aminoethanol", "Schedule 2.B.11", "a 2-(dialkylamino)ethanol, a scheduled precursor",
        f"[#8H1]-[CH2]-[CH2]-[#7](-[{_SMALL}])-[{_SMALL}]",
        max_heavy=10, N=1, O=1, C=4,
        without=("[OH][CH2][CH2][#7]([CH3])[CH3]", "[OH][CH2][CH2][#7]([CH2][CH3])[CH2][CH3]"),  # exempted by name
    ),
    _rule(
        "cwc-2b12-aminoethanethiol", "Schedule 2.B.12", "a 2-(dialkylamino)ethanethiol, a scheduled precursor",
        f"[#16H1]-[CH2]-[CH2]-[#7](-[{_SMALL}])-[{_SMALL}]",
        max_heavy=10, N=1, S=1, C=4,
    ),
)  # fmt: skip
